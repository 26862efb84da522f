<?php
// What an administrator changes of an item: ADMR and ADMC.

declare(strict_types=1);

/** Whether an administrator is signed in; where nobody is, the browser was sent to do so. */
function is_admin(): bool
{
    if (customer() === null) {
        return false;
    }
    return $_SESSION['is_admin'] ?: throw new Refused(403, 'Not yours to change',
        'Only administrators change items.');
}

function admin_request(int $id): string
{
    return is_admin() ? show_admin('ADMR', $id, '') : '';
}

function admin_confirm(int $id): string
{
    if (!is_admin()) {
        return '';
    }
    $cost = number($_POST['cost'] ?? null, 1, 999_999) ?? throw bad('cost');
    $image = text($_POST, 'image', 60, 1);
    transaction(fn() => change_item($id, $cost, $image));
    $related = rows(<<<'SQL'
        select other.i_id, other.i_title, other.i_thumbnail, a_fname, a_lname
        from item as changed
        join item as other on other.i_id in (changed.i_related1, changed.i_related2,
            changed.i_related3, changed.i_related4, changed.i_related5)
        join author on a_id = other.i_a_id
        where changed.i_id = :id
        order by other.i_id
        SQL, ['id' => $id]);
    return show_admin('ADMC', $id, "<h2>Related</h2>\n" . shelf($related));
}

/**
 * Its related items are the five that its buyers bought most of, among the latest 10,000 orders;
 * where they are fewer, those that were related before follow.
 */
function change_item(int $id, int $cost, string $image): int
{
    change(<<<'SQL'
        update item set i_cost = :cost, i_image = :image, i_thumbnail = :image,
            i_pub_date = cast(current_date as text) where i_id = :id
        SQL, ['cost' => $cost, 'image' => $image, 'id' => $id]);
    return change(<<<'SQL'
        with latest as (
            select o_id, o_c_id from orders order by o_id desc limit 10000
        ), candidate as (
            select ol_i_id as other, cast(sum(ol_qty) as bigint) as sold
            from latest join order_line on ol_o_id = o_id
            where ol_i_id <> :id and o_c_id in (
                select o_c_id from latest join order_line on ol_o_id = o_id where ol_i_id = :id)
            group by ol_i_id
            union all select i_related1, 0 from item where i_id = :id
            union all select i_related2, 0 from item where i_id = :id
            union all select i_related3, 0 from item where i_id = :id
            union all select i_related4, 0 from item where i_id = :id
            union all select i_related5, 0 from item where i_id = :id
        ), ranked as (
            select other, row_number() over (order by max(sold) desc, other) as rank
            from candidate group by other
        )
        update item set (i_related1, i_related2, i_related3, i_related4, i_related5) = (
            select max(case when rank = 1 then other end), max(case when rank = 2 then other end),
                max(case when rank = 3 then other end), max(case when rank = 4 then other end),
                max(case when rank = 5 then other end)
            from ranked)
        where i_id = :id
        SQL, ['id' => $id]);
}

/** The item with the form that changes it; after a change, with what follows. */
function show_admin(string $name, int $id, string $follows): string
{
    $item = row(<<<'SQL'
        select i_title, a_fname || ' ' || a_lname as author, i_cost, i_srp, i_image
        from item join author on a_id = i_a_id where i_id = :id
        SQL, ['id' => $id]) ?? throw not_here();
    $title = $item['i_title'];
    $is_changed = $name === 'ADMC';
    $content = ($is_changed ? "<p class=\"flash\">It is changed.</p>\n" : '')
        . "<article class=\"item\" data-item=\"$id\">\n" . cover($item['i_image'], $title)
        . '<h1>' . h($title) . "</h1>\n<p class=\"by\">by " . h($item['author']) . "</p>\n<p>"
        . price($item['i_cost']) . ' instead of ' . price($item['i_srp']) . "</p>\n"
        . "<form class=\"fields\" method=\"post\" action=\"/admin/item/$id\">"
        . token_input() . "\n"
        . field('cost', 'Cost, in cents', 'type="number" required min="1" max="999999"',
            (string) $item['i_cost'])
        . '<label>Image ' . choice('image', array_map('strtolower', SUBJECTS), $item['i_image'])
        . "</label>\n<button>Change it</button>\n</form>\n</article>\n$follows";
    return page($name, $is_changed ? "$title is changed" : "Change $title", $content);
}
