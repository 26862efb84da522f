//! Pages of services/bookstore and services/fortunes for other frameworks: the same SQL, the same
//! bytes, by the client and the templates that are among the fastest of published benchmarks
//! (tokio-postgres with prepared statements, pipelined over one connection a worker; sailfish).
//!
//! What the pages of Rhythm have beside, they do without: the token of a form is a constant, there
//! is no session, and no header but those that say what comes.
#![forbid(unsafe_code)]

use sailfish::TemplateSimple;
use tokio_postgres::{Client, Error, NoTls, Row, Statement};

/// What the statements of the shop's pages ask (services/bookstore/pages).
const PRODUCT: &str = "
    select i_title, a_fname, a_mname, a_lname, a_bio, i_pub_date, i_publisher, i_subject, i_desc,
        i_image, i_srp, i_cost, i_avail, i_stock, i_isbn, i_page, i_backing, i_dimensions
    from item join author on a_id = i_a_id
    where i_id = $1";
const BEST: &str = "
    select i_id, i_title, i_thumbnail, a_fname, a_lname, cast(sum(ol_qty) as bigint) as sold
    from order_line
    join item on i_id = ol_i_id
    join author on a_id = i_a_id
    where i_subject = $1 and ol_o_id >=
        (select min(o_id) from (select o_id from orders order by o_id desc limit 3333) as latest)
    group by i_id, i_title, i_thumbnail, a_fname, a_lname
    order by sold desc, i_id limit 50";
const HOME: &str = "
    select item.i_id, item.i_title, item.i_thumbnail, a_fname, a_lname
    from drawn
    join item as first on first.i_id = drawn.id
    join item on item.i_id in (first.i_related1, first.i_related2, first.i_related3,
        first.i_related4, first.i_related5)
    join author on a_id = item.i_a_id
    order by item.i_id";

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

fn text(row: &Row, at: usize) -> &str {
    row.get(at)
}

fn int(row: &Row, at: usize) -> i64 {
    row.get(at)
}

/// Whatever keeps a page from being made.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The shop, on a connection of its own.
pub struct Shop {
    client: Client,
    product: Statement,
    best: Statement,
    home: Statement,
}

async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Shop {
    /// Connects to its database, and prepares its statements.
    pub async fn connect(url: &str) -> Result<Shop, Error> {
        let client = connect(url).await?;
        Ok(Shop {
            product: client.prepare(PRODUCT).await?,
            best: client.prepare(BEST).await?,
            home: client.prepare(HOME).await?,
            client,
        })
    }

    /// An item's page, if there is such an item.
    pub async fn product(&self, id: i64) -> Result<Option<String>, Failed> {
        match self.client.query_opt(&self.product, &[&id]).await? {
            Some(row) => Ok(Some(Product { id, row: &row }.render_once()?)),
            None => Ok(None),
        }
    }

    /// The best sellers of a subject.
    pub async fn best(&self, subject: &str) -> Result<String, Failed> {
        let items = self.client.query(&self.best, &[&subject]).await?;
        Ok(Best {
            subject,
            items: &items,
        }
        .render_once()?)
    }

    /// The shop's home page.
    pub async fn home(&self) -> Result<String, Failed> {
        let items = self.client.query(&self.home, &[]).await?;
        Ok(Home { items: &items }.render_once()?)
    }
}
