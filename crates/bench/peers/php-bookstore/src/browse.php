<?php
// Looking around: HOME, NEWP, BESS, PROD, SREQ and SRES.

declare(strict_types=1);

function home(): string
{
    $promoted = rows(<<<'SQL'
        select item.i_id, item.i_title, item.i_thumbnail, a_fname, a_lname
        from drawn
        join item as first on first.i_id = drawn.id
        join item on item.i_id in (first.i_related1, first.i_related2, first.i_related3,
            first.i_related4, first.i_related5)
        join author on a_id = item.i_a_id
        order by item.i_id
        SQL);
    $welcome = isset($_SESSION['id']) ? "Welcome back, {$_SESSION['name']}" : 'Welcome';
    return page('HOME', 'Home', '<h1>' . h($welcome) . "</h1>\n<h2>Today's suggestions</h2>\n"
        . shelf($promoted) . "<h2>New books</h2>\n" . by_subject('/new?subject=')
        . "<h2>Best sellers</h2>\n" . by_subject('/best?subject='));
}

function new_products(): string
{
    $subject = text($_GET, 'subject', 60);
    $items = rows(<<<'SQL'
        select i_id, i_title, i_thumbnail, a_fname, a_lname
        from item join author on a_id = i_a_id
        where i_subject = :subject
        order by i_pub_date desc, i_title limit 50
        SQL, ['subject' => $subject]);
    $title = 'New books: ' . titled($subject);
    return page('NEWP', $title, '<h1>' . h($title) . "</h1>\n" . shelf($items));
}

/** The most sold of the latest 3333 orders. */
function best_sellers(): string
{
    $subject = text($_GET, 'subject', 60);
    $items = rows(<<<'SQL'
        select i_id, i_title, i_thumbnail, a_fname, a_lname, cast(sum(ol_qty) as bigint) as sold
        from order_line
        join item on i_id = ol_i_id
        join author on a_id = i_a_id
        where i_subject = :subject and ol_o_id >=
            (select min(o_id) from (select o_id from orders order by o_id desc limit 3333)
                as latest)
        group by i_id, i_title, i_thumbnail, a_fname, a_lname
        order by sold desc, i_id limit 50
        SQL, ['subject' => $subject]);
    $title = 'Best sellers: ' . titled($subject);
    return page('BESS', $title, '<h1>' . h($title) . "</h1>\n" . shelf($items));
}

function product(int $id): string
{
    $item = row(<<<'SQL'
        select i_title, a_fname, a_mname, a_lname, a_bio, i_pub_date, i_publisher, i_subject,
            i_desc, i_image, i_srp, i_cost, i_avail, i_stock, i_isbn, i_page, i_backing,
            i_dimensions
        from item join author on a_id = i_a_id
        where i_id = :id
        SQL, ['id' => $id]) ?? throw not_here();
    $text = array_map('h', $item);
    $author = trim("{$text['a_fname']} {$text['a_mname']} {$text['a_lname']}");
    $to_subject = h('/new?subject=' . rawurlencode($item['i_subject']));
    $subject = h(titled($item['i_subject']));
    $backing = h(strtolower($item['i_backing']));
    $is_admin = $_SESSION['is_admin'] ?? false;
    return page('PROD', $item['i_title'], "<article class=\"item\" data-item=\"$id\">\n"
        . cover($item['i_image'], $item['i_title'])
        . "<h1>{$text['i_title']}</h1>\n<p class=\"by\">by $author</p>\n<p>{$text['i_desc']}</p>\n"
        . '<p>' . price($item['i_cost']) . ' <small>instead of <s>' . price($item['i_srp'])
        . "</s></small></p>\n<form method=\"post\" action=\"/cart\">" . token_input()
        . "<input type=\"hidden\" name=\"add\" value=\"$id\"><button>Put it into the cart</button>"
        . "</form>\n<dl>\n<dt>Subject</dt>\n<dd><a href=\"$to_subject\">$subject</a></dd>\n"
        . "<dt>Binding</dt><dd>$backing, {$text['i_page']} pages, {$text['i_dimensions']}</dd>\n"
        . "<dt>Published</dt>\n<dd>{$text['i_pub_date']} by {$text['i_publisher']}, to be had since"
        . " {$text['i_avail']}</dd>\n<dt>ISBN</dt><dd>{$text['i_isbn']}</dd>\n"
        . "<dt>In stock</dt><dd data-stock=\"{$item['i_stock']}\">{$item['i_stock']}</dd>\n</dl>\n"
        . "<p><small>{$text['a_bio']}</small></p>\n"
        . ($is_admin ? "<p><a href=\"/admin/item/$id\">Change it</a></p>\n" : '')
        . "</article>\n");
}

/** What is looked for, with what was typed before. */
function search_form(string $by = 'title', string $text = ''): string
{
    return "<form class=\"search\" action=\"/results\">\n"
        . choice('by', ['title', 'author', 'subject'], $by, ' aria-label="in"')
        . "\n<input type=\"search\" name=\"text\" aria-label=\"text\" value=\"" . h($text)
        . "\" maxlength=\"60\">\n<button>Search</button>\n</form>\n";
}

function search(): string
{
    return page('SREQ', 'Search', "<h1>Search</h1>\n" . search_form()
        . "<h2>Or look through a subject</h2>\n" . by_subject('/results?by=subject&text='));
}

function results(): string
{
    $by = text($_GET, 'by', 7);
    $text = text($_GET, 'text', 60);
    [$such, $value] = match ($by) {
        // What last names begin with: a range of the index, up to the last character there is.
        'author' => ['lower(a_lname) >= lower(:text)
            and lower(a_lname) < lower(:text) || ' . "'\u{10FFFF}'", $text],
        // What is in a title, wherever it is there.
        'title' => ["lower(i_title) like '%' || lower(:text) || '%' escape '!'",
            strtr($text, ['!' => '!!', '%' => '!%', '_' => '!_'])],
        'subject' => ['i_subject = upper(:text)', $text],
        default => throw bad('by'),
    };
    $items = rows("
        select i_id, i_title, i_thumbnail, a_fname, a_lname
        from item join author on a_id = i_a_id
        where $such
        order by i_title, i_id limit 50", ['text' => $value]);
    return page('SRES', $text, '<h1>' . h("Books of $by $text") . "</h1>\n"
        . search_form($by, $text) . shelf($items) . ($items ? '' : "<p>There are none.</p>\n"));
}
