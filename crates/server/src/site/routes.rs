//! Routes: from a method and a path to what answers.
//!
//! Nearly every request names a resource exactly as it was declared, so the raw bytes of the path
//! are looked up first, in a table made for that. What is left, paths with escapes in them and
//! routes with parameters, is decoded segment by segment and compared.

#[cfg(test)]
mod tests;

use super::proxy_paths::{ProxyFound, ProxyPaths};
use rhythm_engine::program::{Route, Segment};
use rhythm_engine::settings::ProxyPattern;
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::uri;
use std::collections::HashMap;
use std::ops::Range;

/// What answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A page, by its index in the service.
    Page(u32),
    /// A static file, by its index.
    File(u32),
    /// A redirect, by its index.
    Redirect(u32),
    /// A host, by its route's index in the settings.
    Host(u32),
}

/// What a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// What answers, and for a route with parameters which it is.
    Target(Target, Option<PatternId>),
    /// The resource exists, and this is not one of its methods: [`Routes::allowed`] has those.
    OtherMethod,
    /// There is no such resource.
    Nothing,
}

/// Index of a route with parameters.
pub(crate) type PatternId = usize;

/// The values of a path's parameters, decoded. Kept from request to request for its memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captures {
    /// The path, each segment decoded behind a slash.
    path: Vec<u8>,
    /// Where the segments are in it, without their slashes; of these, once a route is found, those
    /// that are its parameters.
    segments: Vec<Range<usize>>,
}

impl Captures {
    /// The value of parameter `index`.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.path.get(self.segments.get(index)?.clone())
    }

    /// A path of these segments, decoded.
    fn of<'s>(segments: impl IntoIterator<Item = &'s [u8]>) -> Captures {
        let mut captures = Captures::default();
        for segment in segments {
            captures.path.push(b'/');
            let start = captures.path.len();
            captures.path.extend_from_slice(segment);
            captures.segments.push(start..captures.path.len());
        }
        captures
    }

    /// Decodes a path as it was sent. Whether that is one.
    fn decode(&mut self, path: &[u8]) -> bool {
        self.path.clear();
        self.segments.clear();
        for segment in uri::segments(path) {
            self.path.push(b'/');
            let start = self.path.len();
            if uri::decode(segment, &mut self.path).is_err() {
                return false;
            }
            self.segments.push(start..self.path.len());
        }
        true
    }

    /// The segments, decoded.
    fn segments(&self) -> impl Iterator<Item = &[u8]> {
        (self.segments.iter()).map(|segment| &self.path[segment.clone()])
    }

    /// Whether they are those of a route's path.
    fn fit(&self, route: &[Segment]) -> bool {
        route.len() == self.segments.len()
            && (route.iter().zip(self.segments())).all(|(want, is)| match want {
                Segment::Literal(text) => text.as_bytes() == is,
                Segment::Param(_) => !is.is_empty(),
            })
    }
}

/// The methods of one path.
#[derive(Debug, Default)]
struct Resource {
    targets: Vec<(Method, Target)>,
}

impl Resource {
    /// Adds a target. The first for a method stays.
    fn add(&mut self, method: Method, target: Target) {
        if self.targets.iter().all(|(known, _)| *known != method) {
            self.targets.push((method, target));
        }
    }

    fn methods(&self) -> impl Iterator<Item = &'static str> {
        self.targets.iter().map(|(method, _)| method.name())
    }

    #[inline]
    fn target(&self, method: Method) -> Option<Target> {
        let find = |wanted| self.targets.iter().find(|(known, _)| *known == wanted);
        let found = find(method).or_else(|| match method {
            Method::Head => find(Method::Get),
            _ => None,
        });
        found.map(|&(_, target)| target)
    }
}

/// A route's path with parameters in it.
#[derive(Debug)]
struct Pattern {
    segments: Vec<Segment>,
    names: Vec<String>,
    resource: Resource,
}

/// Of two routes that a path fits, the one with less of this is asked for.
fn rank(segments: &[Segment]) -> Vec<bool> {
    let is_param = |segment| matches!(segment, &Segment::Param(_));
    segments.iter().map(is_param).collect()
}

/// Which of its page's routes a request was found by, of which this is the line. For those few of
/// which it is to be told: nothing else needs to know it.
pub(crate) fn found_by<'r>(routes: &'r [Route], line: &[u8]) -> Option<&'r Route> {
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next()?, words.next()?);
    let path = target.split(|byte| *byte == b'?').next()?;
    let mut captures = Captures::default();
    if !captures.decode(path) {
        return None;
    }
    let is_by = |route: &&Route| {
        let is_method = |method: &[u8]| route.method.as_bytes() == method;
        is_method(method) || method == b"HEAD" && is_method(b"GET")
    };
    let is_at = |route: &&Route| match path {
        b"/" if route.segments.is_empty() => true,
        _ => captures.fit(&route.segments),
    };
    let all = routes.iter().filter(is_by).filter(is_at);
    // Of two alike the one of HEAD itself goes before that of GET.
    all.min_by_key(|route| (rank(&route.segments), route.method.as_bytes() != method))
}

/// The routes of a site.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    resources: Vec<Resource>,
    /// By the raw path.
    raw: RawTable,
    /// By the decoded path; only paths without a slash inside a segment.
    decoded: HashMap<Vec<u8>, u32>,
    patterns: Vec<Pattern>,
    /// Paths of hosts, without a slash at the end; the longest first.
    hosts: Vec<(Box<[u8]>, u32)>,
    /// What other servers answer.
    proxies: ProxyPaths,
}

impl Routes {
    /// Adds a page's route.
    ///
    /// # Errors
    /// When the server does not know the method.
    pub(crate) fn add_route(&mut self, route: &Route, target: Target) -> Result<(), String> {
        let method = Method::named(route.method.as_bytes())
            .ok_or_else(|| format!("method {} is not known", route.method))?;
        let mut path = Vec::new();
        let mut names = Vec::new();
        for segment in &route.segments {
            path.push(b'/');
            match segment {
                Segment::Literal(text) => path.extend_from_slice(text.as_bytes()),
                Segment::Param(name) => names.push(name.clone()),
            }
        }
        if names.is_empty() {
            self.add_path(&path, method, target);
            return Ok(());
        }
        let shape = |segments: &[Segment]| -> Vec<Option<String>> {
            (segments.iter())
                .map(|segment| match segment {
                    Segment::Literal(text) => Some(text.clone()),
                    Segment::Param(_) => None,
                })
                .collect()
        };
        // Routes of one shape are one resource, unless they name their parameters differently.
        let same = (self.patterns.iter_mut()).find(|pattern| {
            pattern.names == names && shape(&pattern.segments) == shape(&route.segments)
        });
        match same {
            Some(pattern) => pattern.resource.add(method, target),
            None => {
                let mut resource = Resource::default();
                resource.add(method, target);
                self.patterns.push(Pattern {
                    segments: route.segments.clone(),
                    names,
                    resource,
                });
                // A literal segment goes before a parameter, the first segment deciding.
                (self.patterns).sort_by_key(|pattern| rank(&pattern.segments));
            }
        }
        Ok(())
    }

    /// Adds a path given as it is after decoding.
    pub(crate) fn add_path(&mut self, path: &[u8], method: Method, target: Target) {
        let path = if path.is_empty() { b"/" } else { path };
        let index = *self.decoded.entry(path.to_vec()).or_insert_with(|| {
            self.resources.push(Resource::default());
            (self.resources.len() - 1) as u32
        });
        self.resources[index as usize].add(method, target);
        let as_sent = |byte: &u8| byte.is_ascii_graphic() && !b"%?#\"<>\\".contains(byte);
        if path.iter().all(as_sent) {
            self.raw.insert(path, index);
        }
    }

    /// Adds a host's path.
    pub(crate) fn add_host(&mut self, path: &[u8], index: u32) {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        self.hosts.push((path.into(), index));
        // The first of two alike stays: the order is kept.
        (self.hosts).sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    }

    /// Adds what another server answers.
    pub(crate) fn add_proxy(&mut self, pattern: &ProxyPattern, index: u32) {
        self.proxies.add(pattern, index);
    }

    /// The route to another server that a path has, given as it was sent, which nothing here
    /// answers by this method.
    pub(crate) fn find_proxy(&self, method: Method, path: &[u8]) -> ProxyFound {
        let of = |segments: &[&[u8]]| Captures::of(segments.iter().copied());
        let is_page = |read: &[&[u8]]| matches!(self.at(method, &of(read)), Found::Target(..));
        // Hosts are found by paths as they are sent, which a server behind reads decoded.
        let is_of_host = |read: &[&[u8]]| {
            !self.hosts.is_empty() && self.find_host(&of(read).path) != self.find_host(path)
        };
        self.proxies.find(path, is_page, is_of_host)
    }

    /// What answers a path that is no resource.
    fn find_host(&self, path: &[u8]) -> Found {
        let is_below = |(above, _): &&(Box<[u8]>, u32)| {
            let rest = path.strip_prefix(&**above);
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        match self.hosts.iter().find(is_below) {
            Some(&(_, host)) => Found::Target(Target::Host(host), None),
            None => Found::Nothing,
        }
    }

    /// Finds what answers a request for `path`, given as it was sent.
    #[inline]
    pub(crate) fn find(&self, method: Method, path: &[u8], captures: &mut Captures) -> Found {
        if let Some(index) = self.raw.get(path) {
            let resource = &self.resources[index as usize];
            match resource.target(method) {
                Some(target) => return Found::Target(target, None),
                None if self.patterns.is_empty() => return Found::OtherMethod,
                // A route with parameters may have its method.
                None => {}
            }
        }
        self.find_decoded(method, path, captures)
    }

    /// The names of a route's parameters.
    pub(crate) fn names(&self, pattern: Option<PatternId>) -> &[String] {
        pattern.map_or(&[], |id| &self.patterns[id].names)
    }

    #[cold]
    fn find_decoded(&self, method: Method, path: &[u8], captures: &mut Captures) -> Found {
        if self.patterns.is_empty() && !path.contains(&b'%') {
            return self.find_host(path);
        }
        if !captures.decode(path) {
            return self.find_host(path);
        }
        match self.at(method, captures) {
            Found::Nothing => self.find_host(path),
            Found::Target(target, Some(id)) => {
                let mut wanted = self.patterns[id].segments.iter();
                let is_param = |_: &Range<usize>| matches!(wanted.next(), Some(Segment::Param(_)));
                captures.segments.retain(is_param);
                Found::Target(target, Some(id))
            }
            found => found,
        }
    }

    /// What has a path, given decoded, but for hosts.
    fn at(&self, method: Method, path: &Captures) -> Found {
        let mut found = Found::Nothing;
        for (resource, pattern) in self.all_at(path) {
            match resource.target(method) {
                Some(target) => return Found::Target(target, pattern),
                None => found = Found::OtherMethod,
            }
        }
        found
    }

    /// All resources of a path, given decoded: the most specific first.
    fn all_at(&self, path: &Captures) -> impl Iterator<Item = (&Resource, Option<PatternId>)> {
        let is_split_alike = path.segments().all(|segment| !segment.contains(&b'/'));
        let literal = (self.decoded.get(&path.path)).filter(|_| is_split_alike);
        let literal = literal.map(|&index| (&self.resources[index as usize], None));
        let patterns = self.patterns.iter().enumerate();
        let fitting = patterns.filter(|(_, pattern)| path.fit(&pattern.segments));
        literal
            .into_iter()
            .chain(fitting.map(|(id, pattern)| (&pattern.resource, Some(id))))
    }

    /// The methods of a path, given as it was sent, which has some, as in `Allow`.
    #[cold]
    pub(crate) fn allowed(&self, path: &[u8]) -> String {
        let mut captures = Captures::default();
        let mut names = vec!["OPTIONS"];
        if captures.decode(path) {
            let all = self.all_at(&captures);
            names.extend(all.flat_map(|(resource, _)| resource.methods()));
        }
        if names.contains(&"GET") {
            names.push("HEAD");
        }
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

/// A hash table from paths to numbers, for few and short keys that we chose ourselves: a
/// multiplication for each eight bytes instead of a hash that has to withstand an attacker's keys.
#[derive(Debug, Default)]
struct RawTable {
    keys: Vec<(Box<[u8]>, u32)>,
    /// Index into `keys` plus one; 0 is empty. A power of two long, at most half full.
    places: Vec<u32>,
    /// How often a key was put at its place.
    #[cfg(test)]
    placed: usize,
}

impl RawTable {
    fn insert(&mut self, key: &[u8], value: u32) {
        if self.get(key).is_some() {
            return;
        }
        self.keys.push((key.into(), value));
        if self.keys.len() * 2 <= self.places.len() {
            self.place(self.keys.len() - 1);
            return;
        }
        // At most a quarter full: it grows the next time for more than twice as many.
        let size = (self.keys.len() * 4).next_power_of_two();
        self.places.clear();
        self.places.resize(size, 0);
        for index in 0..self.keys.len() {
            self.place(index);
        }
    }

    /// Puts a key at the first free place of those where it is looked for.
    fn place(&mut self, index: usize) {
        #[cfg(test)]
        {
            self.placed += 1;
        }
        let mask = self.places.len() - 1;
        let mut at = hash(&self.keys[index].0) as usize & mask;
        while self.places[at] != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = index as u32 + 1;
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u32> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = hash(key) as usize & mask;
        loop {
            let index = self.places[at].checked_sub(1)?;
            let (known, value) = &self.keys[index as usize];
            if **known == *key {
                return Some(*value);
            }
            at = (at + 1) & mask;
        }
    }
}

#[inline]
fn hash(key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = key.len() as u64;
    let mut mix = |word: u64| {
        state = (state ^ word).wrapping_mul(FACTOR);
        state ^= state >> 29;
    };
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        mix(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last));
    state
}
