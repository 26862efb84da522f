-- The tables. They are made when the site is first served; what is changed here later is not done
-- by itself: change the database too (`sqlite3 site.db`), or delete site.db.
create table entry (
    id    integer primary key,
    text  text not null,
    added text not null default (datetime('now'))
);

insert into entry(text) values ('Change pages/index.html'), ('Add a page');
