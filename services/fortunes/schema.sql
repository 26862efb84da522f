-- The tables, of SQLite and of PostgreSQL alike.
create table world (
    id           integer primary key,
    randomnumber integer not null
);
create table fortune (
    id      integer primary key,
    message text not null
);
-- As many as fill a longer page.
create table long_fortune (
    id      integer primary key,
    message text not null
);
