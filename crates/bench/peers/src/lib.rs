//! Pages of services/banking (`bank`), services/bookstore and services/fortunes for other
//! frameworks: the same SQL, the same bytes, by the client and the templates that are among the
//! fastest of published benchmarks (tokio-postgres with prepared statements; sailfish). Statements
//! are pipelined over one connection, or go over a pool of them (deadpool), as is more usual in
//! sites.
//!
//! What the pages of Rhythm have beside, they do without: the token of a form is a constant, there
//! is no session, and no header but those that say what comes.
#![forbid(unsafe_code)]

mod bank;
mod database;

pub use bank::Branch;
pub use database::{Database, Failed, Told};

use database::Asked;
use sailfish::TemplateSimple;
use tokio_postgres::Row;

/// The subjects, in the order of the shop's lists.
const SUBJECTS: [&str; 24] = [
    "ARTS",
    "BIOGRAPHIES",
    "BUSINESS",
    "CHILDREN",
    "COMPUTERS",
    "COOKING",
    "HEALTH",
    "HISTORY",
    "HOME",
    "HUMOR",
    "LITERATURE",
    "MYSTERY",
    "NON-FICTION",
    "PARENTING",
    "POLITICS",
    "REFERENCE",
    "RELIGION",
    "ROMANCE",
    "SCIENCE-FICTION",
    "SCIENCE-NATURE",
    "SELF-HELP",
    "SPORTS",
    "TRAVEL",
    "YOUTH",
];

/// A title of each word, as the shop shows a subject.
fn title(text: &str) -> String {
    let mut begins = true;
    let letter = |letter: char| {
        let shown = match begins {
            true => letter.to_ascii_uppercase(),
            false => letter.to_ascii_lowercase(),
        };
        begins = !letter.is_alphanumeric();
        shown
    };
    text.chars().map(letter).collect()
}

struct Price(i64);

impl Price {
    fn dollars(&self) -> i64 {
        self.0 / 100
    }

    fn cents(&self) -> i64 {
        self.0 % 100
    }
}

#[derive(TemplateSimple)]
#[template(path = "shop/product.stpl")]
struct Product<'a> {
    id: i64,
    row: &'a Row,
}

#[derive(TemplateSimple)]
#[template(path = "shop/best.stpl")]
struct Best<'a> {
    subject: &'a str,
    items: &'a [Row],
}

#[derive(TemplateSimple)]
#[template(path = "shop/home.stpl")]
struct Home<'a> {
    items: &'a [Row],
}

/// A row of a table of fortunes.
struct Fortune<'a> {
    id: i32,
    message: &'a str,
}

#[derive(TemplateSimple)]
#[template(path = "fortunes.stpl")]
struct Fortunes<'a> {
    fortunes: Vec<Fortune<'a>>,
}

fn text(row: &Row, at: usize) -> &str {
    row.get(at)
}

fn int(row: &Row, at: usize) -> i64 {
    row.get(at)
}

/// The pages, made of what a database has.
pub struct Site(pub Database);

impl Site {
    /// An item's page, if there is such an item.
    pub async fn product(&self, id: i64) -> Result<Option<String>, Failed> {
        let rows = self.0.ask(Asked::Product, &[&id]).await?;
        match rows.first() {
            Some(row) => Ok(Some(Product { id, row }.render_once()?)),
            None => Ok(None),
        }
    }

    /// The best sellers of a subject.
    pub async fn best(&self, subject: &str) -> Result<String, Failed> {
        let items = self.0.ask(Asked::Best, &[&subject]).await?;
        let items = &items;
        Ok(Best { subject, items }.render_once()?)
    }

    /// The shop's home page.
    pub async fn home(&self) -> Result<String, Failed> {
        let items = self.0.ask(Asked::Home, &[]).await?;
        Ok(Home { items: &items }.render_once()?)
    }

    /// The 12 fortunes, and one of the request's own.
    pub async fn fortunes(&self) -> Result<String, Failed> {
        self.told(Asked::Fortunes).await
    }

    /// The 200 fortunes, and one of the request's own.
    pub async fn long_fortunes(&self) -> Result<String, Failed> {
        self.told(Asked::LongFortunes).await
    }

    async fn told(&self, fortunes: Asked) -> Result<String, Failed> {
        let rows = self.0.ask(fortunes, &[]).await?;
        let mut fortunes: Vec<Fortune<'_>> = (rows.iter())
            .map(|row| Fortune {
                id: row.get(0),
                message: text(row, 1),
            })
            .collect();
        fortunes.push(Fortune {
            id: 0,
            message: "Additional fortune added at request time.",
        });
        fortunes.sort_unstable_by(|one, other| one.message.cmp(other.message));
        Ok(Fortunes { fortunes }.render_once()?)
    }
}
