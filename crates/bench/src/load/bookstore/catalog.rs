//! What the shop has: the same population, made of the same SQL in a database of our own, in
//! memory. Whatever database the server has, and whoever wrote to it, its pages are compared with
//! this.

use rusqlite::Connection;

/// What the tables are, how many rows they are to have, and the rows.
const SCHEMA: &str = include_str!("../../../../../services/bookstore/schema.sql");
const POPULATION: &str = include_str!("../../../../../services/bookstore/population.sql");

/// Items that a list shows at most (clause 2.6 and others).
pub(crate) const LISTED_MAX: usize = 50;

/// A book.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) title: String,
    /// First and last name, as lists show it.
    pub(crate) author: String,
    /// The author's last name in small letters, by which is searched.
    pub(crate) last_name: String,
    /// The subject's number.
    pub(crate) subject: usize,
    /// The publisher's price, in cents.
    pub(crate) srp: u64,
    pub(crate) isbn: String,
}

impl Item {
    /// Whether this may be what it costs, in cents: the publisher's price less 0 to 50 %, as the
    /// population has it (clause 4.7), and those who change prices here keep it.
    pub(crate) fn may_cost(&self, cents: u64) -> bool {
        (50..=100).any(|percent| self.at(percent) == cents)
    }

    /// So many percent of the publisher's price.
    pub(crate) const fn at(&self, percent: u64) -> u64 {
        self.srp * percent / 100
    }
}

/// Who is known to the shop from the beginning.
#[derive(Clone, Debug)]
pub(crate) struct Customer {
    pub(crate) uname: String,
    /// In percent.
    pub(crate) discount: u64,
    pub(crate) is_admin: bool,
}

/// All that stays as it is while people shop.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// By their numbers, less one.
    items: Vec<Item>,
    pub(crate) customers: Vec<Customer>,
    pub(crate) subjects: Vec<String>,
}

impl Catalog {
    /// A population of so many items and browsers (2880 customers each).
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn make(items: u32, browsers: u32) -> rusqlite::Result<Catalog> {
        let database = Connection::open_in_memory()?;
        // Items refer to items that come later, which would have all be looked through for each.
        database.pragma_update(None, "foreign_keys", false)?;
        database.execute_batch(SCHEMA)?;
        database.execute("insert into scale values (?1, ?2)", [items, browsers])?;
        database.execute_batch(POPULATION)?;
        let mut subjects = database
            .prepare("select distinct i_subject from item order by i_subject")?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<String>>>()?;
        subjects.shrink_to_fit();
        let items = database
            .prepare(
                "select i_title, a_fname || ' ' || a_lname, lower(a_lname), i_subject, i_srp, \
                 i_isbn from item join author on a_id = i_a_id order by i_id",
            )?
            .query_map([], |row| {
                let subject: String = row.get(3)?;
                Ok(Item {
                    title: row.get(0)?,
                    author: row.get(1)?,
                    last_name: row.get(2)?,
                    subject: subjects.binary_search(&subject).unwrap_or(usize::MAX),
                    srp: row.get::<_, i64>(4)?.unsigned_abs(),
                    isbn: row.get(5)?,
                })
            })?
            .collect::<rusqlite::Result<Vec<Item>>>()?;
        let customers = database
            .prepare("select c_uname, c_discount, c_is_admin from customer order by c_id")?
            .query_map([], |row| {
                Ok(Customer {
                    uname: row.get(0)?,
                    discount: row.get::<_, i64>(1)?.unsigned_abs(),
                    is_admin: row.get(2)?,
                })
            })?
            .collect::<rusqlite::Result<Vec<Customer>>>()?;
        Ok(Catalog {
            items,
            customers,
            subjects,
        })
    }

    /// How many items there are.
    pub(crate) fn items(&self) -> u32 {
        self.items.len() as u32
    }

    /// The item of this number.
    pub(crate) fn item(&self, number: u32) -> Option<&Item> {
        self.items.get(number.checked_sub(1)? as usize)
    }

    /// How many of this subject there are.
    pub(crate) fn count(&self, subject: usize) -> usize {
        let of_it = self.items.iter().filter(|item| item.subject == subject);
        of_it.count()
    }

    /// The first 50 that fit, by title, as a search lists them.
    pub(crate) fn search(&self, fits: impl Fn(&Item) -> bool) -> Vec<u32> {
        let numbered = (1..).zip(&self.items);
        let mut found: Vec<(u32, &Item)> = numbered.filter(|(_, item)| fits(item)).collect();
        found.sort_by(|one, other| (&one.1.title, one.0).cmp(&(&other.1.title, other.0)));
        found.truncate(LISTED_MAX);
        found.into_iter().map(|(number, _)| number).collect()
    }
}
