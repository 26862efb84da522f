-- The population of TPC-W, of as many items and browsers as `scale` says: 2880 customers a browser,
-- two addresses and 0.9 orders a customer, an author for four items. For SQLite and PostgreSQL
-- alike: what is random comes of generators that each row hands on to the next (Lehmer's, modulo
-- 2^31 - 1), so that it is the same in both, and each time.

insert into country (co_id, co_name, co_currency)
select row_number() over (), column1, column2 from (values
    ('United States', 'USD'), ('United Kingdom', 'GBP'), ('Canada', 'CAD'), ('Germany', 'EUR'),
    ('France', 'EUR'), ('Japan', 'JPY'), ('Netherlands', 'EUR'), ('Italy', 'EUR'),
    ('Switzerland', 'CHF'), ('Australia', 'AUD'), ('Algeria', 'DZD'), ('Argentina', 'ARS'),
    ('Armenia', 'AMD'), ('Austria', 'EUR'), ('Azerbaijan', 'AZN'), ('Bahamas', 'BSD'),
    ('Bahrain', 'BHD'), ('Bangladesh', 'BDT'), ('Barbados', 'BBD'), ('Belarus', 'BYN'),
    ('Belgium', 'EUR'), ('Bermuda', 'BMD'), ('Bolivia', 'BOB'), ('Botswana', 'BWP'),
    ('Brazil', 'BRL'), ('Bulgaria', 'EUR'), ('Cayman Islands', 'KYD'), ('Chad', 'XAF'),
    ('Chile', 'CLP'), ('China', 'CNY'), ('Colombia', 'COP'), ('Costa Rica', 'CRC'),
    ('Croatia', 'EUR'), ('Cyprus', 'EUR'), ('Czechia', 'CZK'), ('Denmark', 'DKK'),
    ('Dominican Republic', 'DOP'), ('Ecuador', 'USD'), ('Egypt', 'EGP'), ('Estonia', 'EUR'),
    ('Ethiopia', 'ETB'), ('Falkland Islands', 'FKP'), ('Faroe Islands', 'DKK'), ('Fiji', 'FJD'),
    ('Finland', 'EUR'), ('Gabon', 'XAF'), ('Gibraltar', 'GIP'), ('Greece', 'EUR'),
    ('Guam', 'USD'), ('Hong Kong', 'HKD'), ('Hungary', 'HUF'), ('Iceland', 'ISK'),
    ('India', 'INR'), ('Indonesia', 'IDR'), ('Iran', 'IRR'), ('Iraq', 'IQD'), ('Ireland', 'EUR'),
    ('Israel', 'ILS'), ('Jamaica', 'JMD'), ('Jordan', 'JOD'), ('Kazakhstan', 'KZT'),
    ('Kuwait', 'KWD'), ('Lebanon', 'LBP'), ('Luxembourg', 'EUR'), ('Malaysia', 'MYR'),
    ('Mexico', 'MXN'), ('Mauritius', 'MUR'), ('New Zealand', 'NZD'), ('Norway', 'NOK'),
    ('Pakistan', 'PKR'), ('Philippines', 'PHP'), ('Poland', 'PLN'), ('Portugal', 'EUR'),
    ('Romania', 'RON'), ('Saudi Arabia', 'SAR'), ('Singapore', 'SGD'), ('Slovakia', 'EUR'),
    ('South Africa', 'ZAR'), ('South Korea', 'KRW'), ('Spain', 'EUR'), ('Sudan', 'SDG'),
    ('Sweden', 'SEK'), ('Taiwan', 'TWD'), ('Thailand', 'THB'), ('Trinidad and Tobago', 'TTD'),
    ('Tunisia', 'TND'), ('Turkey', 'TRY'), ('Ukraine', 'UAH'), ('Uruguay', 'UYU'),
    ('Venezuela', 'VES'), ('Vietnam', 'VND'), ('Zambia', 'ZMW')
) as listed;

insert into calendar (day, date)
with recursive n(n) as (select 0 union all select n + 1 from n where n < 99)
select row_number() over (order by y.n, m.n, d.n),
    cast(2000 + y.n as text) || '-' || substr(cast(100 + m.n as text), 2)
        || '-' || substr(cast(100 + d.n as text), 2)
from n as y, n as m, n as d
where m.n between 1 and 12 and d.n between 1 and 31
    and (d.n <= 28 or m.n <> 2 and d.n <= 30 or m.n in (1, 3, 5, 7, 8, 10, 12)
        or m.n = 2 and d.n = 29 and y.n % 4 = 0);

insert into word (kind, n, text)
select column1, row_number() over (partition by column1 order by column2) - 1, column2 from (values
    ('first', 'Ada'), ('first', 'Anna'), ('first', 'Ben'), ('first', 'Carl'), ('first', 'Clara'),
    ('first', 'Dora'), ('first', 'Edith'), ('first', 'Elias'), ('first', 'Emil'),
    ('first', 'Erna'), ('first', 'Felix'), ('first', 'Flora'), ('first', 'Greta'),
    ('first', 'Hanna'), ('first', 'Hugo'), ('first', 'Ida'), ('first', 'Ines'), ('first', 'Jan'),
    ('first', 'Jonas'), ('first', 'Judith'), ('first', 'Karla'), ('first', 'Kurt'),
    ('first', 'Lea'), ('first', 'Leo'), ('first', 'Lina'), ('first', 'Luis'), ('first', 'Mara'),
    ('first', 'Max'), ('first', 'Mina'), ('first', 'Nora'), ('first', 'Olga'), ('first', 'Oscar'),
    ('first', 'Paul'), ('first', 'Petra'), ('first', 'Rosa'), ('first', 'Ruth'),
    ('first', 'Theo'), ('first', 'Tilda'), ('first', 'Vera'), ('first', 'Walter'),
    ('adjective', 'Silent'), ('adjective', 'Hidden'), ('adjective', 'Golden'),
    ('adjective', 'Broken'), ('adjective', 'Distant'), ('adjective', 'Gentle'),
    ('adjective', 'Restless'), ('adjective', 'Crooked'), ('adjective', 'Painted'),
    ('adjective', 'Forgotten'), ('adjective', 'Frozen'), ('adjective', 'Patient'),
    ('adjective', 'Northern'), ('adjective', 'Little'), ('adjective', 'Secret'),
    ('adjective', 'Wandering'), ('adjective', 'Blue'), ('adjective', 'Honest'),
    ('adjective', 'Bitter'), ('adjective', 'Paper'), ('adjective', 'Glass'),
    ('adjective', 'Borrowed'), ('adjective', 'Early'), ('adjective', 'Last'),
    ('adjective', 'Quiet'), ('adjective', 'Salt'), ('adjective', 'Second'), ('adjective', 'Slow'),
    ('adjective', 'Tall'), ('adjective', 'Velvet'), ('adjective', 'Wild'),
    ('adjective', 'Winter'), ('ARTS', 'Brush'), ('ARTS', 'Canvas'), ('ARTS', 'Color'),
    ('ARTS', 'Gallery'), ('BIOGRAPHIES', 'Life'), ('BIOGRAPHIES', 'Memoir'),
    ('BIOGRAPHIES', 'Portrait'), ('BIOGRAPHIES', 'Diary'), ('BUSINESS', 'Ledger'),
    ('BUSINESS', 'Market'), ('BUSINESS', 'Bargain'), ('BUSINESS', 'Office'),
    ('CHILDREN', 'Rabbit'), ('CHILDREN', 'Balloon'), ('CHILDREN', 'Kite'), ('CHILDREN', 'Bear'),
    ('COMPUTERS', 'Compiler'), ('COMPUTERS', 'Kernel'), ('COMPUTERS', 'Network'),
    ('COMPUTERS', 'Queue'), ('COOKING', 'Kitchen'), ('COOKING', 'Oven'), ('COOKING', 'Spoon'),
    ('COOKING', 'Orchard'), ('HEALTH', 'Breath'), ('HEALTH', 'Remedy'), ('HEALTH', 'Walk'),
    ('HEALTH', 'Sleep'), ('HISTORY', 'Empire'), ('HISTORY', 'Chronicle'), ('HISTORY', 'Siege'),
    ('HISTORY', 'Treaty'), ('HOME', 'Garden'), ('HOME', 'Hearth'), ('HOME', 'Attic'),
    ('HOME', 'Workshop'), ('HUMOR', 'Joke'), ('HUMOR', 'Parrot'), ('HUMOR', 'Mishap'),
    ('HUMOR', 'Uncle'), ('LITERATURE', 'Harbor'), ('LITERATURE', 'Letter'),
    ('LITERATURE', 'River'), ('LITERATURE', 'Summer'), ('MYSTERY', 'Clue'), ('MYSTERY', 'Alibi'),
    ('MYSTERY', 'Lantern'), ('MYSTERY', 'Witness'), ('NON-FICTION', 'Essay'),
    ('NON-FICTION', 'Report'), ('NON-FICTION', 'Question'), ('NON-FICTION', 'Inquiry'),
    ('PARENTING', 'Cradle'), ('PARENTING', 'Bedtime'), ('PARENTING', 'Nursery'),
    ('PARENTING', 'Stroller'), ('POLITICS', 'Senate'), ('POLITICS', 'Ballot'),
    ('POLITICS', 'Speech'), ('POLITICS', 'Minister'), ('REFERENCE', 'Atlas'),
    ('REFERENCE', 'Dictionary'), ('REFERENCE', 'Almanac'), ('REFERENCE', 'Index'),
    ('RELIGION', 'Psalm'), ('RELIGION', 'Pilgrim'), ('RELIGION', 'Chapel'),
    ('RELIGION', 'Prayer'), ('ROMANCE', 'Kiss'), ('ROMANCE', 'Promise'), ('ROMANCE', 'Waltz'),
    ('ROMANCE', 'Rose'), ('SELF-HELP', 'Habit'), ('SELF-HELP', 'Mirror'), ('SELF-HELP', 'Ladder'),
    ('SELF-HELP', 'Morning'), ('SCIENCE-NATURE', 'Fern'), ('SCIENCE-NATURE', 'Glacier'),
    ('SCIENCE-NATURE', 'Orbit'), ('SCIENCE-NATURE', 'Beetle'), ('SCIENCE-FICTION', 'Starship'),
    ('SCIENCE-FICTION', 'Android'), ('SCIENCE-FICTION', 'Colony'), ('SCIENCE-FICTION', 'Signal'),
    ('SPORTS', 'Match'), ('SPORTS', 'Goal'), ('SPORTS', 'Summit'), ('SPORTS', 'Regatta'),
    ('YOUTH', 'Dragon'), ('YOUTH', 'Tower'), ('YOUTH', 'Raft'), ('YOUTH', 'Crown'),
    ('TRAVEL', 'Road'), ('TRAVEL', 'Island'), ('TRAVEL', 'Railway'), ('TRAVEL', 'Compass'),
    ('subject', 'ARTS'), ('subject', 'BIOGRAPHIES'), ('subject', 'BUSINESS'),
    ('subject', 'CHILDREN'), ('subject', 'COMPUTERS'), ('subject', 'COOKING'),
    ('subject', 'HEALTH'), ('subject', 'HISTORY'), ('subject', 'HOME'), ('subject', 'HUMOR'),
    ('subject', 'LITERATURE'), ('subject', 'MYSTERY'), ('subject', 'NON-FICTION'),
    ('subject', 'PARENTING'), ('subject', 'POLITICS'), ('subject', 'REFERENCE'),
    ('subject', 'RELIGION'), ('subject', 'ROMANCE'), ('subject', 'SELF-HELP'),
    ('subject', 'SCIENCE-NATURE'), ('subject', 'SCIENCE-FICTION'), ('subject', 'SPORTS'),
    ('subject', 'YOUTH'), ('subject', 'TRAVEL'), ('publisher', 'Alder & Sons'),
    ('publisher', 'Blue Door Press'), ('publisher', 'Bridge House'),
    ('publisher', 'Candle Street Books'), ('publisher', 'Eastgate'),
    ('publisher', 'Fennel & Fig'), ('publisher', 'Harvest Press'), ('publisher', 'Inkwell'),
    ('publisher', 'Juniper House'), ('publisher', 'Lighthouse Editions'),
    ('publisher', 'Meridian'), ('publisher', 'North Quay'), ('publisher', 'Paper Boat'),
    ('publisher', 'Red Barn'), ('publisher', 'Tall Trees'), ('publisher', 'Willow & West'),
    ('street', 'Orchard Road'), ('street', 'Mill Lane'), ('street', 'Station Street'),
    ('street', 'Church Hill'), ('street', 'Market Square'), ('street', 'River Walk'),
    ('street', 'Harbor Street'), ('street', 'Linden Avenue'), ('street', 'Castle Road'),
    ('street', 'School Lane'), ('street', 'Garden Street'), ('street', 'Park Avenue'),
    ('street', 'Bridge Street'), ('street', 'Meadow Lane'), ('street', 'Forest Road'),
    ('street', 'Hill Street'), ('city', 'Alden'), ('city', 'Brackwater'), ('city', 'Coldbrook'),
    ('city', 'Dunmore'), ('city', 'Eastwick'), ('city', 'Fairhaven'), ('city', 'Glenrock'),
    ('city', 'Hartwell'), ('city', 'Ironbridge'), ('city', 'Kingsford'), ('city', 'Lakeside'),
    ('city', 'Maplewood'), ('city', 'Newbury'), ('city', 'Oakham'), ('city', 'Pinehill'),
    ('city', 'Ravenna'), ('city', 'Saltmarsh'), ('city', 'Thornbury'), ('city', 'Upperton'),
    ('city', 'Valley View'), ('city', 'Westbrook'), ('city', 'Yarrow'), ('city', 'Zell'),
    ('city', 'Ashford'), ('city', 'Bellmont'), ('city', 'Crossings'), ('city', 'Drayton'),
    ('city', 'Elmstead'), ('city', 'Foxley'), ('city', 'Greenport'), ('city', 'Highgate'),
    ('city', 'Inverness'),
    ('opening',
        'A book that begins with a knock at the door, and ends where nobody expected it to.'),
    ('opening', 'All that you ever wanted to know, told by somebody who asked the right people.'),
    ('opening', 'It took eleven years to write, and can be read in one long evening by the fire.'),
    ('opening',
        'The second volume of a series whose first was lost in the post, never to be found.'),
    ('opening', 'Written on trains, in waiting rooms, and on the backs of a great many envelopes.'),
    ('opening',
        'A classic, carefully edited, with all the footnotes that earlier editions left out.'),
    ('opening',
        'What seems simple at first turns out, chapter by chapter, to be anything but that.'),
    ('opening',
        'An old question is asked anew, and for once the answer is shorter than the question.'),
    ('praise', 'Readers of all ages asked for more, and the author promised to think about it.'),
    ('praise',
        'With maps, tables and a good index, it does not need to be read from front to back.'),
    ('praise', 'The characters are so well drawn that one is tempted to send them postcards.'),
    ('praise', 'Each chapter stands on its own, and most of them can be read aloud.'),
    ('praise', 'There are forty illustrations, some of which have something to do with the text.'),
    ('praise',
        'It is both a guide for those who begin and a companion for those who never stopped.'),
    ('praise', 'Nothing is taken for granted, and nothing is explained more than twice.'),
    ('praise', 'Critics were divided; librarians, for once, were not.'),
    ('advice', 'The paper is heavy, the binding is sewn, and the type is large enough.'),
    ('advice', 'This edition has a new preface and an old dedication.'),
    ('advice', 'Do not read the last page first.'),
    ('advice', 'It makes a fine present for somebody who has everything but patience.'),
    ('advice', 'A short bibliography shows where to go from here.'),
    ('advice', 'The publisher apologizes for the cover, which the author insisted on.'),
    ('advice', 'No part of it was written in a hurry.'),
    ('advice', 'Recommended for long winters, and for short ones, too.'),
    ('life', 'Born by the sea, the author learned to read from tide tables and timetables.'),
    ('life',
        'A teacher for most of a long life, the author wrote before breakfast, never after it.'),
    ('life',
        'The author has been a baker, a surveyor and, for one summer, keeper of a lighthouse.'),
    ('life', 'Little is known of the author, who answers letters but no questions.'),
    ('work', 'The first book was refused by nine publishers, and the tenth lost it.'),
    ('work', 'All books of the author have been translated, some of them back again.'),
    ('work', 'Between two books there were always a few years, a garden and a number of cats.'),
    ('work', 'Prizes came late, and were used as bookends.'), ('backing', 'HARDBACK'),
    ('backing', 'PAPERBACK'), ('backing', 'USED'), ('backing', 'AUDIO'),
    ('backing', 'LIMITED-EDITION'), ('ship', 'AIR'), ('ship', 'UPS'), ('ship', 'FEDEX'),
    ('ship', 'SHIP'), ('ship', 'COURIER'), ('ship', 'MAIL'), ('status', 'PROCESSING'),
    ('status', 'SHIPPED'), ('status', 'PENDING'), ('status', 'DENIED'), ('card', 'VISA'),
    ('card', 'MASTERCARD'), ('card', 'DISCOVER'), ('card', 'DINERS'), ('card', 'AMEX')
) as listed;

-- Names are the number in syllables, a digit each.
insert into author (a_id, a_fname, a_mname, a_lname, a_dob, a_bio)
with recursive row(id, a, b) as (
    select cast(1 as bigint), cast(1043618065 as bigint), cast(1820346127 as bigint)
    union all
    select id + 1, a * 48271 % 2147483647, b * 69621 % 2147483647
    from row where id < (select items / 4 from scale)
), named as (
    select id, a, b,
        replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
        cast(id as text), '0', 'BA'), '1', 'OG'), '2', 'AL'), '3', 'RI'), '4', 'RE'), '5', 'SE'),
        '6', 'AT'), '7', 'UL'), '8', 'IN'), '9', 'NG') as syllables
    from row
)
select id, (select text from word where kind = 'first' and n = a % 40),
    (select text from word where kind = 'first' and n = b % 40),
    substr(syllables, 1, 1) || lower(substr(syllables, 2)),
    cast(1800 + a / 64 % 190 as text) || '-' || substr(cast(101 + b / 64 % 12 as text), 2)
        || '-' || substr(cast(101 + b / 1024 % 28 as text), 2),
    (select text from word where kind = 'life' and n = a / 16384 % 4) || ' '
        || (select text from word where kind = 'work' and n = b / 65536 % 4)
from named;

insert into item (i_id, i_title, i_a_id, i_pub_date, i_publisher, i_subject, i_desc, i_related1,
    i_related2, i_related3, i_related4, i_related5, i_thumbnail, i_image, i_srp, i_cost, i_avail,
    i_stock, i_isbn, i_page, i_backing, i_dimensions)
with recursive row(id, a, b, c, d) as (
    select cast(1 as bigint), cast(1043618065 as bigint), cast(1820346127 as bigint),
        cast(627150941 as bigint), cast(1379561203 as bigint)
    union all
    select id + 1, a * 48271 % 2147483647, b * 69621 % 2147483647, c * 16807 % 2147483647,
        d * 39373 % 2147483647
    from row where id < (select items from scale)
), named as (
    select id, a, b, c, d, items, (items - 1) / 5 as fifth,
        (select text from word where kind = 'subject' and n = a % 24) as subject,
        cast(1930 + b % 96 as text) || '-'
            || substr(cast(101 + b / 128 % 12 as text), 2) || '-' as month,
        replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
        cast(id as text), '0', 'BA'), '1', 'OG'), '2', 'AL'), '3', 'RI'), '4', 'RE'), '5', 'SE'),
        '6', 'AT'), '7', 'UL'), '8', 'IN'), '9', 'NG') as syllables
    from row, scale
)
select id,
    'The ' || (select text from word where kind = 'adjective' and n = c % 32) || ' '
        || (select text from word where kind = subject and n = c / 32 % 4)
        || ' of ' || substr(syllables, 1, 1) || lower(substr(syllables, 2)),
    case when id <= items / 4 then id else 1 + d % (items / 4) end,
    month || substr(cast(101 + b / 2048 % 14 as text), 2),
    (select text from word where kind = 'publisher' and n = d / 65536 % 16), subject,
    (select text from word where kind = 'opening' and n = a / 32 % 8) || ' '
        || (select text from word where kind = 'praise' and n = b / 65536 % 8)
        || ' ' || (select text from word where kind = 'advice' and n = c / 65536 % 8),
    1 + (id + a / 64 % fifth) % items,
    1 + (id + fifth + b / 64 % fifth) % items,
    1 + (id + 2 * fifth + c / 64 % fifth) % items,
    1 + (id + 3 * fifth + d / 64 % fifth) % items,
    1 + (id + 4 * fifth + (a + b) / 64 % fifth) % items,
    lower(subject), lower(subject),
    100 + d % 999900, (100 + d % 999900) * (100 - c / 128 % 51) / 100,
    month || substr(cast(115 + c / 8192 % 14 as text), 2),
    10 + a / 131072 % 21, substr(cast(1000000000000 + a * 419 as text), 1, 13),
    20 + b / 4096 % 9980, (select text from word where kind = 'backing' and n = c / 1048576 % 5),
    cast(90 + a / 256 % 90 as text) || ' x ' || cast(140 + b / 256 % 120 as text) || ' mm'
from named;

insert into address (addr_id, addr_street1, addr_street2, addr_city, addr_state, addr_zip,
    addr_co_id)
with recursive row(id, a, b) as (
    select cast(1 as bigint), cast(1043618065 as bigint), cast(1820346127 as bigint)
    union all
    select id + 1, a * 48271 % 2147483647, b * 69621 % 2147483647
    from row where id < (select browsers * 5760 from scale)
)
select id, cast(1 + a % 999 as text) || ' '
        || (select text from word where kind = 'street' and n = b % 16), '',
    (select text from word where kind = 'city' and n = a / 1024 % 32),
    (select text from word where kind = 'city' and n = b / 1024 % 32),
    substr(cast(100000 + b / 64 % 100000 as text), 2), 1 + a / 32768 % 92
from row;

insert into customer (c_id, c_uname, c_salt, c_digest, c_is_admin, c_fname, c_lname, c_addr_id,
    c_phone, c_email, c_since, c_last_login, c_login, c_discount, c_ytd_pmt, c_birthdate, c_data)
with recursive row(id, a, b, c, d) as (
    select cast(1 as bigint), cast(1043618065 as bigint), cast(1820346127 as bigint),
        cast(627150941 as bigint), cast(1379561203 as bigint)
    union all
    select id + 1, a * 48271 % 2147483647, b * 69621 % 2147483647, c * 16807 % 2147483647,
        d * 39373 % 2147483647
    from row where id < (select browsers * 2880 from scale)
), today(day) as (
    select day from calendar where date = cast(current_date as text)
), named as (
    select id, a, b, c, d, browsers, day, day - 1 - a % 730 as since,
        replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
        cast(id as text), '0', 'BA'), '1', 'OG'), '2', 'AL'), '3', 'RI'), '4', 'RE'), '5', 'SE'),
        '6', 'AT'), '7', 'UL'), '8', 'IN'), '9', 'NG') as syllables
    from row, scale, today
), dated as (
    select named.*, case when since + d % 61 > day then day else since + d % 61 end as last
    from named
)
select id, syllables, '', '', case when id % 96 = 1 then 1 else 0 end,
    (select text from word where kind = 'first' and n = b % 40),
    substr(syllables, 1, 1) || lower(substr(syllables, 2)),
    1 + c % (5760 * browsers), substr(cast(100000000000 + b * 43 as text), 3),
    lower(syllables) || '@example.com', first.date, final.date, final.date || ' 12:00:00',
    d / 64 % 51, a / 1024 % 100000,
    cast(1930 + a / 64 % 76 as text) || '-' || substr(cast(101 + b / 64 % 12 as text), 2)
        || '-' || substr(cast(101 + c / 64 % 28 as text), 2),
    (select text from word where kind = 'opening' and n = a / 4096 % 8) || ' '
        || (select text from word where kind = 'praise' and n = b / 4096 % 8)
from dated
join calendar as first on first.day = since
join calendar as final on final.day = last;

-- Orders are given in the order of their numbers, over sixty days; what they sum up to is what
-- their lines do, each for a few copies.
create temporary table given as
with recursive row(id, a, b, c, d) as (
    select cast(1 as bigint), cast(1043618065 as bigint), cast(1820346127 as bigint),
        cast(627150941 as bigint), cast(1379561203 as bigint)
    union all
    select id + 1, a * 48271 % 2147483647, b * 69621 % 2147483647, c * 16807 % 2147483647,
        d * 39373 % 2147483647
    from row where id < (select browsers * 2592 from scale)
)
select id, a, b, c, d, browsers, items, 1 + a / 8 % (2880 * browsers) as buyer,
    day - 60 + 60 * id / (2592 * browsers + 1) as day
from row, scale, calendar
where date = cast(current_date as text);

create temporary table line as
with recursive nths(nth) as (select 1 union all select nth + 1 from nths where nth < 5)
select id, nth, 1 + (c + b * nth) % items as item, 1 + (d + a * nth) % 4 as count
from given, nths
where nth <= 1 + a % 5;

insert into orders (o_id, o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date,
    o_bill_addr_id, o_ship_addr_id, o_status)
with cost as (
    select id, cast(sum(i_cost * count) as bigint) as cost, cast(sum(count) as bigint) as count
    from line join item on i_id = item
    group by id
), summed as (
    select given.*, c_addr_id, count, (cost * (100 - c_discount) + 50) / 100 as sub_total
    from given
    join cost on cost.id = given.id
    join customer on c_id = buyer
)
select id, buyer, given_on.date || ' ' || substr(cast(100 + c % 24 as text), 2)
        || ':' || substr(cast(100 + c / 32 % 60 as text), 2)
        || ':' || substr(cast(100 + c / 2048 % 60 as text), 2),
    sub_total, (sub_total * 825 + 5000) / 10000,
    sub_total + (sub_total * 825 + 5000) / 10000 + 300 + 100 * count,
    (select text from word where kind = 'ship' and n = d / 64 % 6), shipped_on.date, c_addr_id,
    1 + b % (5760 * browsers), (select text from word where kind = 'status' and n = d / 512 % 4)
from summed
join calendar as given_on on given_on.day = summed.day
join calendar as shipped_on on shipped_on.day = summed.day + d / 4096 % 8;

insert into order_line (ol_o_id, ol_id, ol_i_id, ol_qty, ol_cost, ol_discount, ol_comments)
select line.id, nth, item, count, i_cost, c_discount,
    (select text from word where kind = 'advice' and n = (b / 64 + nth) % 8)
from line
join given on given.id = line.id
join customer on c_id = buyer
join item on i_id = item;

insert into cc_xacts (cx_o_id, cx_type, cx_last4, cx_name, cx_expiry, cx_auth_id, cx_xact_amt,
    cx_xact_date, cx_co_id)
select o_id,
    (select text from word where kind = 'card' and n = c / 1024 % 5),
    d / 1024 % 10000, c_fname || ' ' || c_lname,
    expires.date, substr(cast(1000000000000000 + a * 465661 as text), 2), o_total, o_ship_date,
    addr_co_id
from given
join orders on o_id = id
join customer on c_id = o_c_id
join address on addr_id = o_bill_addr_id
join calendar as today on today.date = cast(current_date as text)
join calendar as expires on expires.day = today.day + 10 + b / 128 % 721;

drop table line;
drop table given;
