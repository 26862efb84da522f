-- The tables of TPC-W (clause 1.4) on SQLite. postgres.sql has the same, by its names of types.
-- All that is money is in cents, and dates and times are texts (2026-01-15 12:30:00, UTC), which
-- sort as time passes and which both databases print alike.
create table scale (
    items    integer not null,
    browsers integer not null
) strict;
create table country (
    co_id       integer primary key,
    co_name     text not null,
    co_currency text not null
) strict;
create table address (
    addr_id      integer primary key,
    addr_street1 text not null,
    addr_street2 text not null,
    addr_city    text not null,
    addr_state   text not null,
    addr_zip     text not null,
    addr_co_id   integer not null references country
) strict;
-- c_digest is the MD5 of c_salt and the password; where it is empty, the password is the standard's
-- for who was there from the beginning, c_uname in small letters.
create table customer (
    c_id         integer primary key,
    c_uname      text not null unique,
    c_salt       text not null,
    c_digest     text not null,
    c_is_admin   integer not null default 0,
    c_fname      text not null,
    c_lname      text not null,
    c_addr_id    integer not null references address,
    c_phone      text not null,
    c_email      text not null,
    c_since      text not null,
    c_last_login text not null,
    c_login      text not null,
    c_discount   integer not null check (c_discount between 0 and 50),
    c_balance    integer not null default 0,
    c_ytd_pmt    integer not null default 0,
    c_birthdate  text not null,
    c_data       text not null
) strict;
create table author (
    a_id    integer primary key,
    a_fname text not null,
    a_mname text not null,
    a_lname text not null,
    a_dob   text not null,
    a_bio   text not null
) strict;
create table item (
    i_id         integer primary key,
    i_title      text not null,
    i_a_id       integer not null references author,
    i_pub_date   text not null,
    i_publisher  text not null,
    i_subject    text not null,
    i_desc       text not null,
    i_related1   integer not null references item,
    i_related2   integer not null references item,
    i_related3   integer not null references item,
    i_related4   integer not null references item,
    i_related5   integer not null references item,
    i_thumbnail  text not null,
    i_image      text not null,
    i_srp        integer not null,
    i_cost       integer not null,
    i_avail      text not null,
    i_stock      integer not null,
    i_isbn       text not null,
    i_page       integer not null,
    i_backing    text not null,
    i_dimensions text not null
) strict;
create table shopping_cart (
    sc_id    integer primary key,
    sc_token text not null unique,
    sc_time  text not null
) strict;
create table shopping_cart_line (
    scl_sc_id integer not null references shopping_cart,
    scl_i_id  integer not null references item,
    scl_qty   integer not null check (scl_qty between 0 and 999),
    primary key (scl_sc_id, scl_i_id)
) strict;
create table orders (
    o_id           integer primary key,
    o_c_id         integer not null references customer,
    o_date         text not null,
    o_sub_total    integer not null,
    o_tax          integer not null,
    o_total        integer not null,
    o_ship_type    text not null,
    o_ship_date    text not null,
    o_bill_addr_id integer not null references address,
    o_ship_addr_id integer not null references address,
    o_status       text not null
) strict;
-- What was paid for one is kept: items get other prices.
create table order_line (
    ol_o_id     integer not null references orders,
    ol_id       integer not null,
    ol_i_id     integer not null references item,
    ol_qty      integer not null,
    ol_cost     integer not null,
    ol_discount integer not null,
    ol_comments text not null,
    primary key (ol_o_id, ol_id)
) strict;
-- Of a card's number the last four digits alone.
create table cc_xacts (
    cx_o_id      integer primary key references orders,
    cx_type      text not null,
    cx_last4     integer not null,
    cx_name      text not null,
    cx_expiry    text not null,
    cx_auth_id   text not null,
    cx_xact_amt  integer not null,
    cx_xact_date text not null,
    cx_co_id     integer not null references country
) strict;
-- Days by their number, so that a date can be so many days later.
create table calendar (
    day  integer primary key,
    date text not null unique
) strict;
-- Words that titles, names and texts of the population are made of.
create table word (
    kind text not null,
    n    integer not null,
    text text not null,
    primary key (kind, n)
) strict;

-- What nobody can guess.
create view fresh(token) as select lower(hex(randomblob(16)));
-- An item, another each time.
create view drawn(id) as select 1 + abs(random() % (select items from scale));
