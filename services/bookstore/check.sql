-- What must never be: all counts are 0, whoever bought meanwhile and whatever was stopped.
-- `sqlite3 -header -column bookstore.db < check.sql`, or `psql DATABASE -f check.sql`.
select 'orders that are not the sum of their lines' as wrong, count(*) as count
from orders left join (
    select ol_o_id, max(ol_discount) as discount, cast(sum(ol_qty) as bigint) as copies,
        cast(sum(ol_cost * ol_qty) as bigint) as cost
    from order_line group by ol_o_id) as lines on ol_o_id = o_id
where cost is null or o_sub_total <> (cost * (100 - discount) + 50) / 100
    or o_tax <> (o_sub_total * 825 + 5000) / 10000
    or o_total <> o_sub_total + o_tax + 300 + 100 * copies
union all
select 'orders that were not paid, or not as much', count(*)
from orders left join cc_xacts on cx_o_id = o_id
where cx_o_id is null or cx_xact_amt <> o_total
union all
select 'items of which there are less than 10 or more than 30', count(*)
from item where i_stock not between 10 and 30
union all
select 'lines of carts that are no more', count(*)
from shopping_cart_line left join shopping_cart on sc_id = scl_sc_id where sc_id is null;
