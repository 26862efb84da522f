<?php
// The cart (SHOP), which is its visitor's by the token of a cookie.

declare(strict_types=1);

const COPIES_MAX = 999;
const CHANGES_MAX = 500;

/** The token of the visitor's cart, or nothing. */
function cart_token(): string
{
    $token = $_COOKIE['cart'] ?? '';
    return is_text($token, 0, 64) ? $token : '';
}

function cart(): string
{
    $lines = rows(<<<'SQL'
        select i_id, i_title, i_backing, i_thumbnail, i_srp, i_cost, scl_qty from cart_shown
        where sc_token = :cart order by i_id
        SQL, ['cart' => cart_token()]);
    $content = '<p>There is nothing in it yet. <a href="/search">Search for something</a></p>';
    if ($lines) {
        $content = '<form method="post" action="/cart">' . token_input()
            . "\n<table class=\"lines\">\n<thead><tr><th></th><th>Book</th><th>Each</th>"
            . "<th>Copies</th><th>Together</th></tr></thead>\n<tbody>\n";
        foreach ($lines as $at => $line) {
            $content .= cart_line($at, $line);
        }
        $content .= "</tbody>\n</table>\n<button>Change the numbers</button>"
            . " <a class=\"go\" href=\"/register\">Buy</a>\n</form>";
    }
    return page('SHOP', 'Cart', "<h1>Your cart</h1>\n$content\n");
}

function cart_line(int $at, array $line): string
{
    ['i_id' => $id, 'i_cost' => $cost, 'scl_qty' => $count] = $line;
    return "<tr data-line=\"$id\" data-quantity=\"$count\" data-cents=\"$cost\">\n<td>"
        . cover($line['i_thumbnail'], $line['i_title'])
        . "</td>\n<td data-item=\"$id\"><a href=\"/item/$id\">" . h($line['i_title'])
        . "</a>\n<small>" . h(strtolower($line['i_backing'])) . "</small></td>\n<td>"
        . price($cost) . "</td>\n<td><input type=\"hidden\" name=\"line[$at]\" value=\"$id\">\n"
        . "<input type=\"number\" name=\"quantity[$at]\" aria-label=\"copies\" min=\"0\" max=\""
        . COPIES_MAX . "\"\nvalue=\"$count\"></td>\n<td>" . price($cost * $count)
        . "</td>\n</tr>\n";
}

function change_cart(): string
{
    $add = number($_POST['add'] ?? '0', 0, PHP_INT_MAX) ?? throw bad('add');
    $changes = cart_changes();
    if ($add > 0) {
        add_to_cart($add);
    }
    if ($changes) {
        transaction(function () use ($changes) {
            $of_cart = 'scl_sc_id = (select sc_id from shopping_cart where sc_token = :cart)';
            foreach ($changes as [$line, $count]) {
                change("update shopping_cart_line set scl_qty = :count
                    where scl_i_id = :line and $of_cart",
                    ['count' => $count, 'line' => $line, 'cart' => cart_token()]);
            }
            return change("delete from shopping_cart_line where scl_qty = 0 and $of_cart",
                ['cart' => cart_token()]);
        });
    }
    return redirect('/cart');
}

/** Items, and how many there are to be of each. */
function cart_changes(): array
{
    $lines = $_POST['line'] ?? [];
    $counts = $_POST['quantity'] ?? [];
    if (!is_array($lines) || !is_array($counts) || count($lines) !== count($counts)
        || count($lines) > CHANGES_MAX) {
        throw bad('quantity');
    }
    $changes = [];
    foreach ($lines as $at => $line) {
        $changes[] = [
            number($line, 1, PHP_INT_MAX) ?? throw bad('line'),
            number($counts[$at] ?? null, 0, COPIES_MAX) ?? throw bad('quantity'),
        ];
    }
    return $changes;
}

/** One more of an item, in the cart that the visitor has, or in a new one. */
function add_to_cart(int $item): void
{
    $most = COPIES_MAX;
    $token = transaction(function () use ($item, $most) {
        $added = change("
            insert into shopping_cart_line (scl_sc_id, scl_i_id, scl_qty)
            select sc_id, :item, 1 from shopping_cart where sc_token = :cart
            on conflict (scl_sc_id, scl_i_id) do update
            set scl_qty = least(shopping_cart_line.scl_qty + 1, $most)",
            ['item' => $item, 'cart' => cart_token()]);
        if ($added > 0) {
            return cart_token();
        }
        $made = row(<<<'SQL'
            insert into shopping_cart (sc_token, sc_time)
            select token, substr(cast(current_timestamp as text), 1, 19) from fresh
            returning sc_id, sc_token
            SQL);
        change('insert into shopping_cart_line (scl_sc_id, scl_i_id, scl_qty)
            values (:made, :item, 1)', ['made' => $made['sc_id'], 'item' => $item]);
        return $made['sc_token'];
    });
    if ($token === null) {
        // An item that is not there breaks a rule.
        throw not_here();
    }
    if ($token !== cart_token()) {
        setcookie('cart', $token, ['path' => '/', 'httponly' => true, 'samesite' => 'Lax']);
    }
}
