//! The database of the pages: over one connection, or over a pool of them.

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

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

const FORTUNES: &str = "select id, message from fortune";
const LONG_FORTUNES: &str = "select id, message from long_fortune";

/// What a page asks (services/bookstore/pages, services/fortunes/pages).
#[derive(Clone, Copy)]
pub(crate) enum Asked {
    Product,
    Best,
    Home,
    Fortunes,
    LongFortunes,
}

const STATEMENTS: [&str; 5] = [PRODUCT, BEST, HOME, FORTUNES, LONG_FORTUNES];

/// Whatever keeps a page from being made.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// See the module's text.
pub enum Database {
    /// A connection, over which statements are pipelined.
    One(Client, Vec<Statement>),
    /// Several, of which each page has one by itself.
    Pool(Pool),
}

impl Database {
    /// Connects to it: over a pool where a number of connections is said.
    pub async fn connect(url: &str, connections: Option<usize>) -> Result<Database, Failed> {
        if let Some(connections) = connections {
            let config = ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            };
            let manager = Manager::from_config(url.parse()?, NoTls, config);
            let pool = Pool::builder(manager).max_size(connections).build()?;
            return Ok(Database::Pool(pool));
        }
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let mut statements = Vec::new();
        for statement in STATEMENTS {
            statements.push(client.prepare(statement).await?);
        }
        Ok(Database::One(client, statements))
    }

    /// What a statement answers.
    pub(crate) async fn ask(
        &self,
        asked: Asked,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failed> {
        Ok(match self {
            Database::One(client, statements) => {
                client.query(&statements[asked as usize], values).await?
            }
            Database::Pool(pool) => {
                let client = pool.get().await?;
                let statement = client.prepare_cached(STATEMENTS[asked as usize]).await?;
                client.query(&statement, values).await?
            }
        })
    }
}

/// What a server is told.
pub struct Told {
    /// Where to listen.
    pub address: String,
    /// Where the database is.
    pub url: String,
    /// Of how many connections its pool is; without, it is one connection.
    pub connections: Option<usize>,
    /// Pages are compressed for who takes it.
    pub gzip: bool,
}

impl Told {
    /// By the command line: `ADDRESS DATABASE [CONNECTIONS | gzip]`.
    pub fn read() -> Result<Told, Failed> {
        let usage = "usage: ADDRESS DATABASE [CONNECTIONS | gzip]";
        let mut arguments = std::env::args().skip(1);
        let (address, url) = (
            arguments.next().ok_or(usage)?,
            arguments.next().ok_or(usage)?,
        );
        let more = arguments.next();
        let gzip = more.as_deref() == Some("gzip");
        let connections = more.filter(|_| !gzip).map(|number| number.parse());
        Ok(Told {
            address,
            url,
            connections: connections.transpose()?,
            gzip,
        })
    }
}
