//! Whatever a template is, compiling it ends: with a program, or with a mistake that says what is
//! too large.

mod page_common;

use page_common::compare;
use rhythm_engine::cohort::{LaneError, LaneState};
use rhythm_engine::compile::{Size, compile, compile_within};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits, conformance};
use rhythm_engine::program::Service;
use rhythm_engine::source::Sources;
use rhythm_protocol::scan::Level;
use std::sync::Arc;

/// Compiles a page with this template and templates, and gives the first mistake.
fn mistake(template: &str, templates: &[(&str, String)]) -> String {
    let mut sources = Sources::default();
    let header = "+++\nroute = \"GET /\"\n[params]\nn = { in = \"query\", type = \"int\" }\n+++\n";
    sources
        .files
        .insert("service.toml".to_owned(), String::new());
    sources
        .files
        .insert("pages/a.html".to_owned(), format!("{header}{template}"));
    for (name, text) in templates {
        sources
            .files
            .insert(format!("templates/{name}"), text.clone());
    }
    match compile(&sources, conformance::BESIM) {
        Ok(service) => format!("compiles to {} fragments", service.fragments.len()),
        Err(diagnostics) => diagnostics[0].message.clone(),
    }
}

#[test]
fn a_service_may_come_to_so_much_and_no_more() {
    let mut sources = Sources::default();
    let mut file = |name: String, text: String| sources.files.insert(name, text);
    file("service.toml".to_owned(), String::new());
    let long = "{{ n }}and so on ".repeat(100);
    file("templates/long.html".to_owned(), long);
    for page in 0..10 {
        // Few bytes each, and the first text is none that another has.
        let text = format!(
            "+++\nroute = \"GET /{page}\"\n[params]\n\
             n = {{ in = \"query\", type = \"int\" }}\n+++\n\
             {page}{}{{% include \"long.html\" %}}",
            "x".repeat(1000)
        );
        file(format!("pages/{page}.html"), text);
    }
    let larger = |most: Size| {
        let mut steps = Vec::new();
        let mut step = |done: usize, of: usize| steps.push((done, of));
        let compiled = compile_within(&sources, conformance::BESIM, most, &mut step);
        // Of each page it is told, up to the last that is compiled.
        let counted = (0..steps.len()).map(|done| (done, 10)).collect::<Vec<_>>();
        assert_eq!(steps, counted);
        match compiled {
            Ok(service) => {
                assert_eq!((service.pages.len(), steps.len()), (10, 11));
                None
            }
            Err(found) => {
                assert!(found[0].message.contains("larger than any"), "{}", found[0]);
                Some(found[0].file.clone())
            }
        }
    };
    assert_eq!(larger(Size::ANY), None);
    let any = Size::ANY;
    assert_eq!(larger(Size { pages: 10, ..any }), None);
    let fourth = Some("pages/3.html".to_owned());
    assert_eq!(larger(Size { pages: 3, ..any }), fourth);
    let text_bytes = 3_500;
    assert_eq!(larger(Size { text_bytes, ..any }), fourth);
    // Of each page two hundred, and not those of the files alone.
    assert_ne!(
        larger(Size {
            nodes: 1_000,
            ..any
        }),
        None
    );
}

#[test]
fn deep_nesting_is_refused() {
    let deep = |open: &str, inside: &str, close: &str, times: usize| {
        format!("{}{inside}{}", open.repeat(times), close.repeat(times))
    };
    for times in [100, 10_000] {
        for template in [
            format!("{{{{ {} }}}}", deep("(", "1", ")", times)),
            format!("{{{{ {} }}}}", deep("[", "1", "]", times)),
            format!("{{{{ {} }}}}", deep("range(", "1", ")", times)),
            deep("{% if n %}", "x", "{% endif %}", times),
            deep("{% for i in range(n) %}", "x", "{% endfor %}", times),
            format!("{{% if n %}}{}{{% endif %}}", "{% elif n %}".repeat(times)),
        ] {
            assert_eq!(
                mistake(&template, &[]),
                "this nests too deep",
                "{times} {}",
                &template[..20]
            );
        }
        // What the parser bounds itself: blocks of `set`.
        let sets = "{% set x %}".repeat(times * 2);
        assert_ne!(mistake(&sets, &[]), "compiles to 0 fragments");
    }
}

#[test]
fn long_expressions_are_refused() {
    for link in ["not ", "- ", "1 + ", "n ~ ", "1 if n else "] {
        let template = format!("{{{{ {}1 }}}}", link.repeat(20_000));
        assert_eq!(
            mistake(&template, &[]),
            "this expression is too long",
            "{link}"
        );
    }
    for link in ["|abs", ".a", "[1]", "(1)", " is odd", " + 1"] {
        let template = format!("{{{{ n{} }}}}", link.repeat(20_000));
        assert_eq!(
            mistake(&template, &[]),
            "this expression is too long",
            "{link}"
        );
    }
    // Long is not deep: a list of many constants is fine.
    let list = format!(
        "{{% for x in [{}] %}}{{{{ x }}}}{{% endfor %}}",
        "-1, ".repeat(500)
    );
    assert_eq!(mistake(&list, &[]), "compiles to 0 fragments");
}

#[test]
fn templates_that_grow_without_end_are_refused() {
    let text = "0123456789".repeat(10);
    let doubling = |inside: &str| -> Vec<(String, String)> {
        (0..40)
            .map(|level| {
                let next = format!("{{% include \"t{}\" %}}", level + 1);
                (format!("t{level}"), format!("{next}{inside}{next}"))
            })
            .chain([("t40".to_owned(), "end".to_owned())])
            .collect()
    };
    for inside in [
        "",
        &text,
        "{{ n }}",
        "{% if n %}{{ n }}{% endif %}",
        "{% set x = n + 1 %}",
    ] {
        let templates = doubling(inside);
        let templates: Vec<(&str, String)> = templates
            .iter()
            .map(|(name, text)| (&name[..], text.clone()))
            .collect();
        assert_eq!(
            mistake("{% include \"t0\" %}", &templates),
            "the page becomes too large here"
        );
    }
    let macros: String = (0..40)
        .map(|level| match level {
            0 => "{% macro m0(x) %}{{ x }}{% endmacro %}".to_owned(),
            _ => {
                let call = format!("{{{{ m{}(x ~ x) }}}}", level - 1);
                format!("{{% macro m{level}(x) %}}{call}{call}{{% endmacro %}}")
            }
        })
        .collect();
    assert_eq!(
        mistake(&format!("{macros}{{{{ m39(n) }}}}"), &[]),
        "the page becomes too large here"
    );
    // A constant that doubles with each line.
    let doubling_text = format!(
        "{{% set x = \"{text}\" %}}{}",
        "{% set x = x ~ x %}".repeat(60)
    );
    assert_eq!(
        mistake(&doubling_text, &[]),
        "the page becomes too large here"
    );
}

/// What is chosen of a list is compiled wherever the list is gone through.
#[test]
fn lists_of_which_much_is_chosen_are_refused() {
    let rows = "[[step]]\ncall = \"echo\"\nrequest = \"1\"\nrows = \"rows(n:int)\"\n";
    let service = "[backend.echo]\nkind = \"besim\"\n";
    let of_filters = |filters: &str, times: usize| {
        let sets = format!("{{% set l = l{filters} %}}").repeat(times);
        let template = format!("{{% set l = rows|map(attribute=\"n\") %}}{sets}{{{{ l|join }}}}");
        mistake_of(service, rows, &template)
    };
    let doubling = "{% set s = s ~ \",\" ~ s %}".repeat(15);
    let template =
        format!("{{% set s = \"n\" %}}{doubling}{{{{ rows|sort(attribute=s)|length }}}}");
    let told = "more than 64 filters choose from this list";
    assert_eq!(mistake_of(service, rows, &template), told);
    assert_eq!(of_filters(&"|sort".repeat(70), 1), told);
    // Few of each, but each of all before.
    let each = format!("{}|batch(2)|map(\"length\")", "|sort".repeat(50));
    assert_eq!(of_filters(&each, 1), "compiles to 0 fragments");
    assert_eq!(of_filters(&each, 4), "the page becomes too large here");
}

/// Compiles a page with this header and template under these settings, and gives the first mistake.
fn mistake_of(settings: &str, header: &str, template: &str) -> String {
    let mut sources = Sources::default();
    let page = format!("+++\nroute = \"GET /\"\n{header}+++\n{template}");
    (sources.files).insert("service.toml".to_owned(), settings.to_owned());
    sources.files.insert("pages/a.html".to_owned(), page);
    match compile(&sources, conformance::BESIM) {
        Ok(service) => format!("compiles to {} fragments", service.fragments.len()),
        Err(diagnostics) => diagnostics[0].message.clone(),
    }
}

#[test]
fn a_page_that_no_answer_can_hold_is_refused() {
    let settings = "[limits]\nresponse_bytes_max = 1024";
    let header = "[params]\nn = { in = \"query\", type = \"text\" }\n";
    let [x, y] = ["x".repeat(1000), "y".repeat(100)];
    let short = "y".repeat(24);
    for (template, bytes) in [
        (format!("{x}{{{{ n }}}}{y}"), Some(1100)),
        (
            format!("{x}{{% if n %}}{short}{{% else %}}{y}{{% endif %}}{y}"),
            Some(1124),
        ),
        (format!("{x}{{{{ n }}}}{short}"), None),
        (format!("{x}{{% if n %}}{y}{{% endif %}}{short}"), None),
        (
            format!("{x}{{% for i in range(9) %}}{y}{{% endfor %}}"),
            None,
        ),
    ] {
        let found = mistake_of(settings, header, &template);
        match bytes {
            Some(bytes) => assert_eq!(
                found,
                format!("the page's static text is {bytes} bytes, too many for any answer")
            ),
            None => assert!(found.starts_with("compiles"), "{found}"),
        }
    }
}

#[test]
fn a_division_by_zero_that_always_happens_is_refused() {
    for template in [
        "{{ 1 // 0 }}",
        "{{ 1 % 0 }}",
        "{{ n // 0 }}",
        "{{ n % (1 - 1) }}",
    ] {
        assert_eq!(mistake(template, &[]), "this divides by zero", "{template}");
    }
}

#[test]
fn no_index_wraps() {
    // One more than an index reaches, and less than what is refused as too large for a page.
    const MANY: usize = 1 << 16;
    let columns: Vec<String> = (0..MANY).map(|at| format!("'c{at}': {at}")).collect();
    let template = format!("{{% set x = [{{ {} }}] %}}", columns.join(", "));
    assert_eq!(mistake(&template, &[]), "a list has too many columns here");
    let mut sources = Sources::default();
    let params: String = (0..MANY)
        .map(|at| format!("p{at} = {{ in = \"query\", type = \"int\" }}\n"))
        .collect();
    let page = format!("+++\nroute = \"GET /\"\n[params]\n{params}+++\n");
    let files = &mut sources.files;
    files.insert("service.toml".to_owned(), String::new());
    files.insert("pages/a.html".to_owned(), page);
    let mistakes = compile(&sources, conformance::BESIM).expect_err("too many parameters");
    assert_eq!(
        mistakes[0].message,
        "the page has too many parameters, columns, headers or lists of constants"
    );
}

/// A service of a page with this template.
fn compiled(template: &str) -> (Sources, Arc<Service>) {
    let header = "+++\nroute = \"GET /\"\n[params]\nt = { in = \"query\", type = \"text\" }\n+++\n";
    let page = format!("{header}{template}");
    let mut sources = Sources::default();
    (sources.files).insert("service.toml".to_owned(), String::new());
    sources.files.insert("pages/a.html".to_owned(), page);
    let service = compile(&sources, conformance::BESIM);
    let service = Arc::new(service.expect("the page is right"));
    (sources, service)
}

/// Why all lanes fail, on all executors.
fn refused_for(template: &str) -> LaneError {
    let (_, service) = compiled(template);
    let limits = LaneLimits::default();
    let executors: [&mut dyn Executor; 2] = [
        &mut ScalarExecutor::new(limits),
        &mut HostExecutor::new(limits, Level::detect()),
    ];
    let [scalar, host] = executors.map(|executor| {
        let states = conformance::final_states(executor, &service, 0, 3, 1);
        assert!(states.iter().all(|state| *state == states[0]), "{template}");
        states[0]
    });
    assert_eq!(scalar, host, "{template}");
    match host {
        LaneState::Failed(error) => error,
        state => panic!("{template}: {state:?}"),
    }
}

/// Whether all lanes answer as MiniJinja does, under the limits that a service has if it says
/// nothing, on all executors; or none does.
fn is_answered(template: &str) -> bool {
    let (sources, service) = compiled(template);
    let limits = LaneLimits::default();
    let executors: [&mut dyn Executor; 2] = [
        &mut ScalarExecutor::new(limits),
        &mut HostExecutor::new(limits, Level::detect()),
    ];
    let [scalar, host] = executors.map(|executor| {
        let compared = compare(executor, &sources, &service, 0, 3, 1);
        let compared = compared.expect("what is answered is MiniJinja's");
        match (compared.equal, compared.failed) {
            (0, 1..) => false,
            (1.., 0) => true,
            _ => panic!("{compared:?}: all lanes are alike here"),
        }
    });
    assert_eq!(scalar, host);
    host
}

#[test]
fn what_a_loop_puts_together_costs_its_length() {
    for template in [
        "{{ range(20000)|join(', ')|length }}",
        "{% set x %}{% for i in range(20000) %}{{ i }}, {% endfor %}{% endset %}{{ x|length }}",
        "{% filter upper %}{% for i in range(9000) %}{{ i }}{{ t[:3] }}{% endfor %}{% endfilter %}",
        "{% set x %}{{ range(20000)|tojson }}{% endset %}{{ x|length }}",
    ] {
        assert!(is_answered(template), "{template}");
    }
    // Its bound is that of all texts: of a part, of that as HTML has it, and of all of it.
    let bound = "{% set x %}{% for i in range(N) %}{{ '0123456789'[:7] }}{% endfor %}{% endset %}";
    assert!(is_answered(&bound.replace('N', "45000")));
    assert!(!is_answered(&bound.replace('N', "55000")));
}

#[test]
fn looking_for_parts_of_a_long_text_ends() {
    let long = "{% set x %}{% for i in range(10000) %}{{ 'ä123456789' }}{% endfor %}{% endset %}";
    let each = |loop_: &str| format!("{long}{loop_}");
    for part in [
        "x[90000 + i]",
        "x[90000 + i:90001 + i]",
        "x[-i]",
        "x[-i:]|first",
    ] {
        let few = format!("{{% for i in range(1, 300) %}}{{{{ {part} }}}}{{% endfor %}}");
        assert!(is_answered(&each(&few)), "{part}");
        let many = format!("{{% for i in range(1, 4000) %}}{{{{ {part} }}}}{{% endfor %}}");
        assert!(!is_answered(&each(&many)), "{part}");
    }
}

#[test]
fn looking_through_long_texts_in_a_loop_ends() {
    // 4,000 bytes of each; a reader of few of them is answered, one of many is not.
    let long = "{% set x %}{% for i in range(400) %}{{ 'aaaaaaaaaa' }}{% endfor %}{% endset %}\
        {% set y = x ~ 'b' %}{% set z = x ~ 'c' %}{% set digits %}{% for i in range(400) %}\
        {{ '0000000000' }}{% endfor %}{% endset %}{% set e = x|replace('a', 'ä') %}\
        {% set words %}{% for i in range(800) %}{{ 'a b, ' }}{% endfor %}{% endset %}";
    for look in [
        "'b' in x",
        "x[:2000] ~ 'b' in x",
        "x == x ~ ''",
        "y < z",
        "x is startingwith(x)",
        "x is endingwith(x)",
        "x is lower",
        "e is upper",
        "x|length",
        "e|length",
        "digits|int",
        "digits|float(1.0)",
        "x|int(0)",
        "x|md5",
        "x|first",
        "e|last",
        "(' ' ~ x)|trim|length > i",
        "x|replace('aaaaaaaaaa', '')",
        "x|truncate(length=3)",
        "x|striptags",
        "e[3]",
        "e[-3]",
        "e[3:5]",
        "words|split(',')|first",
        "words|split|last",
        "words|lines|length",
    ] {
        let turns = |count: u32| {
            let shown = format!("{{% if {look} %}}{{% endif %}}");
            format!("{long}{{% for i in range({count}) %}}{shown}{{% endfor %}}")
        };
        // MiniJinja's own filters of numbers take nothing in place of what is none.
        if look != "digits|float(1.0)" && look != "x|int(0)" {
            assert!(is_answered(&turns(10)), "{look}");
        }
        assert_eq!(
            refused_for(&turns(40_000)),
            LaneError::TooMuchText,
            "{look}"
        );
    }
    for choice in [
        "range(N)|map('string')|sort",
        "range(N)|map('string')|unique",
        "range(N)|map('string')|sort(case_sensitive=true)",
    ] {
        let short = format!("{{% for k in {choice} %}}{{% endfor %}}").replace('N', "4000");
        assert!(is_answered(&short), "{choice}");
        let sets = format!("{long}{{% for k in {choice} %}}{{% endfor %}}");
        let sets = sets.replace("map('string')", "map('replace', '', x)");
        let refused = refused_for(&sets.replace('N', "20000"));
        assert_eq!(refused, LaneError::TooMuchText, "{choice}");
    }
}

/// What is compared in the else of a branch is not charged to lanes that do not come there, where
/// an executor compares for all of them at once, too.
#[test]
fn what_is_not_looked_through_costs_nothing() {
    let template = "{% set x %}{% for i in range(4000) %}{{ 'aaaaaaaaaa' }}{% endfor %}{% endset %}\
        {% set y = x ~ 'b' %}{% set z = x ~ 'b' %}\
        {% for i in range(20000) %}\
        {% if i >= 0 %}a{% elif y == z %}b{% else %}c{% endif %}{% endfor %}";
    assert!(is_answered(template));
    let looked_through = template.replace("i >= 0", "i > 99999");
    assert_eq!(refused_for(&looked_through), LaneError::TooMuchText);
}
