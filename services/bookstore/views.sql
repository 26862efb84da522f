-- What several pages show, for SQLite and PostgreSQL.

-- The lines of a cart, by the token that its visitor's cookie has.
create view cart_shown as
select sc_token, i_id, i_title, i_backing, i_thumbnail, i_srp, i_cost, scl_qty
from shopping_cart
join shopping_cart_line on scl_sc_id = sc_id
join item on i_id = scl_i_id;

-- An order, as who gave it sees it.
create view order_shown as
select o_id, o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, o_status,
    c_fname, c_lname, c_email, c_discount, cx_type, cx_auth_id,
    bill.addr_street1 || ', ' || bill.addr_city || ' ' || bill.addr_zip || ', ' || bill_in.co_name
        as o_billed_to,
    ship.addr_street1 || ', ' || ship.addr_city || ' ' || ship.addr_zip || ', ' || ship_in.co_name
        as o_shipped_to
from orders
join customer on c_id = o_c_id
join cc_xacts on cx_o_id = o_id
join address as bill on bill.addr_id = o_bill_addr_id
join country as bill_in on bill_in.co_id = bill.addr_co_id
join address as ship on ship.addr_id = o_ship_addr_id
join country as ship_in on ship_in.co_id = ship.addr_co_id;

-- What is paid: less the customer's discount in percent, 8.25 percent of taxes,
-- three dollars for sending it and one for each copy.
create view cart_bill as
select sc_token, c_id, sub_total, (sub_total * 825 + 5000) / 10000 as tax,
    300 + 100 * count as shipping
from (
    select sc_token, c_id, (cost * (100 - c_discount) + 50) / 100 as sub_total, count
    from (
        select sc_token, cast(sum(i_cost * scl_qty) as bigint) as cost,
            cast(sum(scl_qty) as bigint) as count
        from cart_shown group by sc_token
    ) as summed, customer
) as discounted;
create view order_bill as
select ol_o_id, sub_total, (sub_total * 825 + 5000) / 10000 as tax, 300 + 100 * count as shipping
from (
    select ol_o_id, (cast(sum(ol_cost * ol_qty) as bigint) * (100 - max(ol_discount)) + 50) / 100
        as sub_total, cast(sum(ol_qty) as bigint) as count
    from order_line group by ol_o_id
) as summed;

-- The lines of an order.
create view order_line_shown as
select ol_o_id, ol_id, ol_i_id, ol_qty, ol_cost, i_title, i_publisher
from order_line join item on i_id = ol_i_id;
