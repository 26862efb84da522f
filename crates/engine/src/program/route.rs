//! Routes: the methods and paths that a page answers to.

/// A method and a path, the latter possibly with parameters: `/users/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// `GET`, `POST`, ... `GET` answers `HEAD` too.
    pub method: String,
    /// Segments of the path after the leading `/`.
    pub segments: Vec<Segment>,
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.method)?;
        if self.segments.is_empty() {
            return f.write_str("/");
        }
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{text}")?,
                Segment::Param(name) => write!(f, "/{{{name}}}")?,
            }
        }
        Ok(())
    }
}

/// One segment of a route's path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Must be equal after percent-decoding.
    Literal(String),
    /// Taken as a path parameter of this wire name.
    Param(String),
}
