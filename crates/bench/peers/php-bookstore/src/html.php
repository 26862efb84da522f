<?php
// Pieces of pages, which are services/bookstore's. `data-` attributes are what scripts read.

declare(strict_types=1);

const SUBJECTS = ['ARTS', 'BIOGRAPHIES', 'BUSINESS', 'CHILDREN', 'COMPUTERS', 'COOKING', 'HEALTH',
    'HISTORY', 'HOME', 'HUMOR', 'LITERATURE', 'MYSTERY', 'NON-FICTION', 'PARENTING', 'POLITICS',
    'REFERENCE', 'RELIGION', 'ROMANCE', 'SCIENCE-FICTION', 'SCIENCE-NATURE', 'SELF-HELP', 'SPORTS',
    'TRAVEL', 'YOUTH'];

/** Text as HTML has it. */
function h(mixed $text): string
{
    return htmlspecialchars((string) $text, ENT_QUOTES | ENT_SUBSTITUTE | ENT_HTML5, 'UTF-8');
}

/** SCIENCE-FICTION is Science-Fiction. */
function titled(string $text): string
{
    return ucwords(strtolower($text), ' -');
}

/** Cents, as dollars. */
function dollars(int $cents): string
{
    return sprintf('$%d.%02d', intdiv($cents, 100), $cents % 100);
}

function price(int $cents): string
{
    return "<span class=\"price\" data-cents=\"$cents\">" . dollars($cents) . '</span>';
}

function cover(string $image, string $title): string
{
    return '<img class="cover" src="/static/covers/' . h(rawurlencode($image)) . '.svg" alt="'
        . h($title) . "\"\nwidth=\"96\" height=\"128\">";
}

/** The links to a list by subject. */
function by_subject(string $path): string
{
    $list = "<ul class=\"subjects\">\n";
    foreach (SUBJECTS as $name) {
        $list .= '<li><a href="' . h($path . $name) . '">' . h(titled($name)) . "</a></li>\n";
    }
    return "$list</ul>\n";
}

/** Items of a list. */
function shelf(array $items): string
{
    $list = "<ol class=\"shelf\">\n";
    foreach ($items as $item) {
        $list .= "<li data-item=\"{$item['i_id']}\"><a href=\"/item/{$item['i_id']}\">"
            . cover($item['i_thumbnail'], $item['i_title']) . '<span>' . h($item['i_title'])
            . '</span></a> <small>' . h("{$item['a_fname']} {$item['a_lname']}")
            . "</small></li>\n";
    }
    return "$list</ol>\n";
}

function token_input(): string
{
    return '<input type="hidden" name="csrf_token" value="' . h(token()) . '">';
}

/** A choice of one of these, which may be shown otherwise than they are sent. */
function choice(string $name, array $values, ?string $chosen = null, string $more = ''): string
{
    $options = '';
    foreach ($values as $value) {
        $is_chosen = $value === $chosen ? ' selected' : '';
        $options .= '<option value="' . h($value) . "\"$is_chosen>" . h($value) . "</option>\n";
    }
    return "<select name=\"$name\"$more>\n$options</select>";
}

/** A field of a form, with what was typed before and what is wrong with it. */
function field(string $name, string $label, string $more, string $value = '', string $wrong = ''):
    string
{
    $why = $wrong === '' ? '' : '<p class="wrong">' . h("$label $wrong.") . "</p>\n";
    return $why . '<label>' . h($label) . " <input name=\"$name\" $more\nvalue=\"" . h($value)
        . "\"></label>\n";
}

/** The rows of a cart's or an order's table. */
function lines(array $lines, bool $has_links): string
{
    $rows = '';
    foreach ($lines as $line) {
        $id = $line['id'];
        $title = h($line['title']);
        $title = $has_links ? "<a href=\"/item/$id\">$title</a>" : $title;
        $rows .= "<tr data-line=\"$id\" data-quantity=\"{$line['quantity']}\""
            . " data-cents=\"{$line['cost']}\">\n<td data-item=\"$id\">$title</td>"
            . "<td>{$line['quantity']}</td>\n<td>" . price($line['cost']) . "</td></tr>\n";
    }
    return $rows;
}

/** What is paid for these lines. */
function bill(string $rows, string $less, int $sub_total, int $tax, int $shipping): string
{
    $total = $sub_total + $tax + $shipping;
    $sums = '';
    foreach ([$less => $sub_total, 'Taxes' => $tax, 'Shipping' => $shipping] as $what => $cents) {
        $sums .= '<tr><td>' . h($what) . '</td><td></td><td>' . price($cents) . "</td></tr>\n";
    }
    return "<table class=\"lines\">\n<thead><tr><th>Book</th><th>Copies</th><th>Each</th></tr>"
        . "</thead>\n<tbody>\n$rows</tbody>\n<tfoot>\n$sums"
        . "<tr><td>Total</td><td></td><td data-total=\"$total\">" . dollars($total)
        . "</td></tr>\n</tfoot>\n</table>\n";
}

function text_page(string $title, string $text): string
{
    return '<h1>' . h($title) . "</h1>\n<p>" . h($text) . " <a href=\"/\">Home</a></p>\n";
}

/** A page: its name among TPC-W's, its title, and its content, which is HTML. */
function page(string $name, string $title, string $content): string
{
    $flash = take_flash();
    $flash = $flash === null ? '' : '<p class="flash">' . h($flash) . "</p>\n";
    $title = h($title);
    $out = '';
    if (isset($_SESSION['id'])) {
        $out = '<form class="out" method="post" action="/sign_out">' . token_input()
            . h($_SESSION['name']) . "\n<button>Sign out</button></form>\n";
    }
    return <<<HTML
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title - The Cohort Bookstore</title>
<link rel="stylesheet" href="/static/bookstore.css">
</head>
<body data-page="$name">
<header>
<a class="name" href="/">The Cohort Bookstore</a>
<nav>
<a href="/search">Search</a>
<a href="/order">Orders</a>
<a href="/cart">Cart</a>
</nav>
$out</header>
<main>
$flash$content</main>
<footer>A benchmark's shop: nothing here is sold.</footer>
</body>
</html>

HTML;
}
