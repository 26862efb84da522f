insert into scale (items, browsers) values (1000, 1);
