-- What pages look for, for SQLite and PostgreSQL; made after the population, which is quicker.
create index item_new on item(i_subject, i_pub_date desc, i_title);
create index item_subject on item(i_subject, i_title);
create index item_author on item(i_a_id);
create index author_name on author(lower(a_lname));
create index address_street on address(addr_street1);
create index order_customer on orders(o_c_id, o_id);
create index order_line_item on order_line(ol_i_id, ol_o_id);
create index cart_line_item on shopping_cart_line(scl_i_id);
-- Carts are none yet: PostgreSQL would plan for that.
analyze address;
analyze author;
analyze calendar;
analyze cc_xacts;
analyze country;
analyze customer;
analyze item;
analyze order_line;
analyze orders;
