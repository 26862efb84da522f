-- What stands in the tables, the same in SQLite and in PostgreSQL, and each time: the numbers are
-- a generator's (Lehmer's, modulo 2^31 - 1).

insert into world (id, randomnumber)
with recursive drawn(id, number) as (
    select 1, cast(48271 as bigint)
    union all
    select id + 1, number * 48271 % 2147483647 from drawn where id < 10000)
select id, number % 10000 + 1 from drawn;

insert into fortune (id, message) values
    (1, 'A queue is a promise; a long one is a broken promise.'),
    (2, 'What is asked once need not be answered twice.'),
    (3, 'The cache was right until it was not.'),
    (4, 'Measure it again, and look at the clock this time.'),
    (5, 'Half of all benchmarks compare the other half.'),
    (6, 'Nothing is as permanent as a time-out that somebody doubled once.'),
    (7, 'Zero, one, and more than there is memory for.'),
    (8, 'A lock that nobody waits for is a decoration.'),
    (9, 'Whoever waits for the slowest is the slowest.'),
    (10, 'Tests & measurements: "it was fast on my machine" is neither.'),
    (11, '<script>alert("Whoever sees this in a box has not escaped it.");</script>'),
    (12, '急がば、まとめて進め。');

-- Two hundred, none twice: 20 beginnings of 10 endings each.
insert into long_fortune (id, message)
with recursive numbered(n) as (
    select 0
    union all
    select n + 1 from numbered where n < 199),
begins(n, text) as (values
    (0, 'A traveler who counts every step'), (1, 'The clerk behind the third window'),
    (2, 'Whoever sorts letters by night'), (3, 'An old bridge & its keeper'),
    (4, 'The last baker of the long street'), (5, 'Somebody with a borrowed umbrella'),
    (6, 'A clockmaker''s most patient pupil'), (7, 'The ferry that leaves when it is full'),
    (8, 'Everyone in the second carriage'), (9, 'One who reads the small print first'),
    (10, 'The gardener of the "public" garden'), (11, 'A choir that has lost its score'),
    (12, 'The postman <of the upper valley>'), (13, 'Two chess players and their dog'),
    (14, 'Any captain of a paper boat'), (15, 'The café at the end of the line'),
    (16, 'Nobody''s cousin from the coast'), (17, 'The lighthouse, on a clear day'),
    (18, 'Who has carried water uphill'), (19, 'An orchestra tuning in the dark')),
ends(n, text) as (values
    (0, 'will find that the shortest way leads past everybody who has asked for it before.'),
    (1, 'knows that ten who go together wait for one door, and ten who go alone for ten.'),
    (2, 'has never been late, for nobody has ever said when it was supposed to begin.'),
    (3, 'keeps a list of all that was forgotten, and cannot remember where it is kept.'),
    (4, 'will soon be answered, though not to the question that was asked this morning.'),
    (5, 'should not mistake a silence for a yes, nor an echo for a second opinion.'),
    (6, 'gives away on Monday what will be looked for until late on Thursday evening.'),
    (7, 'learns in the end that the queue beside moves faster only while it is beside.'),
    (8, 'is right twice a day, and spends the hours between in explaining how.'),
    (9, 'carries the same stone back and forth, and calls the second way a return.'))
select numbered.n + 1, begins.text || ' ' || ends.text
from numbered
join begins on begins.n = numbered.n * 7 % 20
join ends on ends.n = numbered.n / 20
order by numbered.n;
