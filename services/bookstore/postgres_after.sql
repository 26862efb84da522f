-- Numbers of what comes after the population, on PostgreSQL.
select setval(pg_get_serial_sequence('address', 'addr_id'), (select max(addr_id) from address));
select setval(pg_get_serial_sequence('customer', 'c_id'), (select max(c_id) from customer));
select setval(pg_get_serial_sequence('orders', 'o_id'), (select max(o_id) from orders));
