-- The tables, made where notes.db is not there yet.
create table topic (
    id   integer primary key,
    name text not null unique
);
create table note (
    id      integer primary key,
    topic   integer not null references topic(id),
    author  text not null,
    text    text not null,
    written text not null default (datetime('now')),
    likes   integer not null default 0
);
create index note_topic on note(topic, id);

insert into topic(name) values ('Lost and found'), ('For sale'), ('Neighbors');
insert into note(topic, author, text) values
    (1, 'Ada', 'Found: one glove, left hand, gray.'),
    (2, 'Bob', 'A bicycle, three gears, 40 or an offer.');
