//! The reference: what a request must be answered with.
//!
//! A request's page is run alone, as a cohort of one, by the scalar executor, with BeSim's own
//! answers. Nothing of the server takes part: parameters are put into their fields from the values
//! the client meant, not from what it sent. Answers are kept for the whole process, since they
//! depend on nothing but their key.

use rhythm_besim::Bank;
use rhythm_engine::cohort::SessionChange;
use rhythm_engine::cohort::{AnswerWriter, Cell, Cohort, Column, LaneState, ROWS_MAX, Span};
use rhythm_engine::compile::compile;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits, Work};
use rhythm_engine::program::Service;
use rhythm_engine::program::{ParamType, SessionUse};
use rhythm_engine::source::Sources;
use rhythm_protocol::besim::AnswerReader;
use rhythm_server::Site;
use rhythm_server::backend::kinds;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Users of the simulated bank.
pub(crate) const USERS: u32 = 1000;
/// The bank, as each side knows it.
pub(crate) const BANK: Bank = Bank::new(USERS);

/// Delivers the rows of an answer's body, and gives its status. What is no answer delivers a row
/// without cells, which no page expects.
pub(crate) fn deliver(body: &[u8], columns: u16, answer: &mut AnswerWriter<'_>) -> i64 {
    let mut reader = AnswerReader::default();
    let Ok(values) = reader.read(body, columns.into(), ROWS_MAX) else {
        answer.row([]);
        return 0;
    };
    (values.rows()).for_each(|row| answer.row(row.map(Cell::Text)));
    i64::from(values.status)
}

/// Names and values, decoded.
pub(crate) type Values = Vec<(String, String)>;

/// What a page must answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
    pub(crate) session: SessionChange,
}

/// What an answer depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    version: usize,
    page: usize,
    values: Rc<Values>,
    user: Option<i64>,
    /// The call whose requests get status 1.
    refused: Option<usize>,
}

/// The service in two versions, and their answers.
pub(crate) struct Reference {
    /// Version 0 is Banking as it is; see [`change`] for version 1.
    pub(crate) services: [Arc<Service>; 2],
    pub(crate) statics: BTreeMap<String, Vec<u8>>,
    answers: HashMap<Key, Rc<Answer>>,
    /// The sites of the first run: what is prepared of their pages serves those of all others.
    pub(crate) first_sites: OnceCell<[Arc<Site>; 2]>,
}

impl Reference {
    /// Compiles services/banking.
    pub(crate) fn load() -> Reference {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/banking");
        let mut statics = BTreeMap::new();
        read_files(&folder.join("static"), "", &mut statics);
        // Longer than what is read at a time.
        let long = (0..150_000u32).map(|at| (at % 241) as u8);
        statics.insert("long.bin".to_owned(), long.collect());
        let mut sources = Sources {
            static_files: statics.keys().cloned().collect(),
            ..Sources::default()
        };
        for part in ["pages", "templates"] {
            let mut files = BTreeMap::new();
            read_files(&folder.join(part), "", &mut files);
            for (name, bytes) in files {
                let text = String::from_utf8(bytes).expect("pages are UTF-8");
                sources.files.insert(format!("{part}/{name}"), text);
            }
        }
        let config = std::fs::read_to_string(folder.join("service.toml")).expect("it is there");
        sources.files.insert("service.toml".to_owned(), config);
        let first = compile_or_panic(&sources);
        change(&mut sources);
        let second = compile_or_panic(&sources);
        Reference {
            services: [first, second],
            statics,
            answers: HashMap::new(),
            first_sites: OnceCell::new(),
        }
    }

    /// Index of the page of this name in a version, if it has it.
    pub(crate) fn page(&self, version: usize, name: &str) -> Option<usize> {
        let pages = &self.services[version].pages;
        pages.iter().position(|page| page.name == name)
    }

    /// Whether a page looks at the session.
    pub(crate) fn uses_session(&self, name: &str) -> bool {
        let page = self.page(0, name).expect("Banking has the page");
        self.services[0].pages[page].session != SessionUse::None
    }

    /// How many calls a page makes.
    pub(crate) fn calls(&self, version: usize, page: usize) -> usize {
        self.services[version].pages[page].calls.len()
    }

    /// What the page answers to these values, for a user who is signed in or not.
    pub(crate) fn answer(
        &mut self,
        version: usize,
        page: usize,
        values: &Rc<Values>,
        user: Option<i64>,
        refused: Option<usize>,
    ) -> Rc<Answer> {
        let key = Key {
            version,
            page,
            values: values.clone(),
            user,
            refused,
        };
        if let Some(answer) = self.answers.get(&key) {
            return answer.clone();
        }
        let answer = Rc::new(run(&self.services[version], &self.statics, &key));
        self.answers.insert(key, answer.clone());
        answer
    }
}

/// Makes version 1: every page has another title, one is new, so that all have other numbers, one
/// has another call, and one is gone. What is only read is read once for all of a cohort who ask
/// the same.
fn change(sources: &mut Sources) {
    let mut edit = |file: &str, old: &str, new: &str| {
        let text = sources.files.get_mut(file).expect("Banking has the file");
        assert!(text.contains(old), "{file} lacks {old}");
        *text = text.replacen(old, new, 1);
    };
    edit(
        "templates/layout.html",
        "</title>",
        " (version two)</title>",
    );
    edit(
        "pages/profile.html",
        "[[step]]",
        "[[step]]\ncall = \"besim\"\nrequest = \"1&5&{{ session.userid }}\"\n\
         rows = \"bills(payee, date, amount)\"\n\n[[step]]",
    );
    for (_, text) in (sources.files.iter_mut()).filter(|(_, text)| !text.contains("\"POST ")) {
        *text = text.replace("call    = \"besim\"", "call = \"besim\"\nshare = true");
    }
    let page = "+++\nroute = \"GET /bank/a.php\"\n+++\nNews\n";
    sources
        .files
        .insert("pages/a.html".to_owned(), page.to_owned());
    sources.files.remove("pages/order_check.html");
}

fn compile_or_panic(sources: &Sources) -> Arc<Service> {
    match compile(sources, &kinds()) {
        Ok(service) => Arc::new(service),
        Err(diagnostics) => panic!("services/banking does not compile: {diagnostics:#?}"),
    }
}

fn read_files(folder: &Path, prefix: &str, into: &mut BTreeMap<String, Vec<u8>>) {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    for entry in entries {
        let entry = entry.expect("it can be read");
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            read_files(&entry.path(), &format!("{name}/"), into);
        } else {
            into.insert(name, std::fs::read(entry.path()).expect("it can be read"));
        }
    }
}

/// Runs a page for one request.
fn run(service: &Arc<Service>, statics: &BTreeMap<String, Vec<u8>>, key: &Key) -> Answer {
    let program = &service.pages[key.page];
    let mut cohort = Box::<Cohort>::default();
    cohort.reset(program);
    let lane = cohort.push_lane();
    fill_in(program, &key.values, &mut cohort);
    if let (true, Some(fields)) = (program.session != SessionUse::None, program.session_fields) {
        cohort.fields[usize::from(fields.present)].set_int(lane, i64::from(key.user.is_some()));
        cohort.fields[usize::from(fields.user)].set_int(lane, key.user.unwrap_or(0));
    }
    let mut executor = ScalarExecutor::new(LaneLimits::default());
    let mut done = Vec::new();
    for stage in 0..program.stages.len() {
        let work = Work {
            service: service.clone(),
            page: key.page,
            cohort,
            token: 0,
        };
        executor.submit(work).expect("the reference takes all work");
        executor.poll(&mut done);
        cohort = done.pop().expect("the reference is done at once").cohort;
        if cohort.lanes[lane] != LaneState::Active {
            break;
        }
        let (queries, mut rows) = cohort.exchange(program);
        for query in 0..queries.len() {
            let (mut text, mut body) = (Vec::new(), Vec::new());
            let (form, columns) = (&rows.call().form, rows.call().columns);
            form.write(queries.arguments(query), &mut text);
            match key.refused {
                Some(call) if call == stage => body.extend_from_slice(REFUSED),
                _ => BANK.answer(&text, &mut body),
            }
            rows.answer(query, |answer| deliver(&body, columns, answer));
        }
        cohort.settle(program);
    }
    assert_eq!(
        cohort.lanes[lane],
        LaneState::Finished,
        "page {} {:?}",
        program.name,
        key
    );
    let output = &cohort.output.lanes[lane];
    let (mut body, mut content_type) = (Vec::new(), program.content_type.clone());
    match output.file {
        Some(path) => {
            let path = String::from_utf8_lossy(cohort.arena.get(path)).into_owned();
            body.clone_from(&statics[&path]);
            content_type = content_type_of(&path).to_owned();
        }
        None => cohort.output.stitch(lane, &service.fragments, &mut body),
    }
    Answer {
        status: output.status,
        content_type,
        body,
        session: output.session,
    }
}

/// An answer of BeSim that says no.
pub(crate) const REFUSED: &[u8] = b"<pre>\n1\nno\n</pre>\n";

/// The media type of a file.
pub(crate) fn content_type_of(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        Some("css") => "text/css; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Puts the values into the fields of the only lane.
fn fill_in(program: &rhythm_engine::program::PageProgram, values: &Values, cohort: &mut Cohort) {
    let find = |name: &str| {
        values
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value)
    };
    for param in &program.params {
        let value = find(&param.wire_name).or(param.default.as_ref());
        let value = value.expect("requests that lack a parameter have no reference");
        let field = usize::from(param.field);
        match param.kind {
            ParamType::Int { .. } => {
                cohort.fields[field].set_int(0, value.parse().expect("an integer"));
            }
            _ => {
                let view = cohort.arena.push(value.as_bytes());
                cohort.fields[field].set_text(0, view);
            }
        }
    }
    for param in &program.list_params {
        let Cohort { fields, arena, .. } = &mut *cohort;
        let list = fields[usize::from(param.field)].list_mut();
        let mut length = 0;
        for ((name, _), column) in param.columns.iter().zip(&mut list.columns) {
            length = 0;
            while let Some(value) = find(&format!("{name}[{length}]")) {
                match column {
                    Column::Int(values) => values.push(value.parse().expect("an integer")),
                    Column::Text(views) => views.push(arena.push(value.as_bytes())),
                    Column::List(_) => unreachable!("items are scalars"),
                }
                length += 1;
            }
        }
        list.spans[0] = Span { start: 0, length };
    }
}
