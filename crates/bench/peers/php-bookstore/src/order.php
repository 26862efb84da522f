<?php
// Buying and what was bought: BUYR, BUYC, ORDI and ORDD.

declare(strict_types=1);

const CARDS = ['VISA', 'MASTERCARD', 'DISCOVER', 'DINERS', 'AMEX'];
// By which way it is sent, and how many days later.
const SHIPS = ['AIR' => 1, 'UPS' => 2, 'FEDEX' => 2, 'SHIP' => 6, 'COURIER' => 1, 'MAIL' => 6];
const ANOTHER_ADDRESS = ['street1' => ['Street', 40], 'city' => ['City', 30],
    'state' => ['State', 20], 'zip' => ['Zip code', 10], 'country' => ['Country', 50]];

/** How it is paid and sent: empty, or again with what was typed and what is wrong with it. */
function card_form(array $typed = [], array $errors = []): string
{
    $again = fn(string $name, string $label, string $more) => field($name, $label, $more,
        $name === 'number' ? '' : $typed[$name] ?? '', $errors[$name] ?? '');
    $address = '';
    foreach (ANOTHER_ADDRESS as $name => [$label, $most]) {
        $address .= $again($name, $label, "maxlength=\"$most\"");
    }
    $open = isset($errors['country']) ? ' open' : '';
    return '<form class="fields" method="post" action="/buy">' . token_input()
        . "\n<label>Card " . choice('card', CARDS) . "</label>\n"
        . $again('number', 'Number, digits alone',
            'required inputmode="numeric" maxlength="16" autocomplete="cc-number"')
        . $again('name', 'Name on it', 'required maxlength="30" autocomplete="cc-name"')
        . $again('expiry', 'Good until', 'type="date" required')
        . '<label>Sent by ' . choice('ship', array_keys(SHIPS)) . "</label>\n"
        . "<details$open><summary>To another address</summary>\n$address</details>\n"
        . "<button>Buy</button>\n</form>\n";
}

function buy_request(): string
{
    $id = customer();
    if ($id === null) {
        return '';
    }
    $who = row(<<<'SQL'
        select c_fname, c_lname, c_email, c_discount, addr_street1, addr_street2, addr_city,
            addr_state, addr_zip, co_name
        from customer join address on addr_id = c_addr_id join country on co_id = addr_co_id
        where c_id = :id
        SQL, ['id' => $id]) ?? throw not_here();
    // Lines and what is paid for them are of one moment: a price may change between two
    // statements.
    $lines = rows(<<<'SQL'
        select i_id as id, i_title as title, i_cost as cost, scl_qty as quantity, sub_total, tax,
            shipping
        from cart_shown join cart_bill on cart_bill.sc_token = cart_shown.sc_token
        where cart_shown.sc_token = :cart and cart_bill.sc_token = :cart and c_id = :id
        order by i_id
        SQL, ['cart' => cart_token(), 'id' => $id]);
    $content = "<h1>Buy</h1>\n<p>" . h("{$who['c_fname']} {$who['c_lname']} ({$who['c_email']}), "
        . "{$who['addr_street1']} {$who['addr_street2']}, {$who['addr_city']} {$who['addr_state']} "
        . "{$who['addr_zip']}, {$who['co_name']}") . "</p>\n";
    if ($lines) {
        $less = "Less your discount of {$who['c_discount']} %";
        ['sub_total' => $sub_total, 'tax' => $tax, 'shipping' => $shipping] = $lines[0];
        $content .= bill(lines($lines, false), $less, $sub_total, $tax, $shipping) . card_form();
    } else {
        $content .= '<p>There is nothing in your cart.'
            . " <a href=\"/search\">Search for something</a></p>\n";
    }
    return page('BUYR', 'Buy', $content);
}

function buy_confirm(): string
{
    $id = customer();
    if ($id === null) {
        return '';
    }
    $rules = ['name' => [1, 30], 'expiry' => 'day'];
    foreach (ANOTHER_ADDRESS as $name => [, $most]) {
        $rules[$name] = [0, $most];
    }
    [$typed, $errors] = fields($rules);
    $number = number($_POST['number'] ?? null, 100_000_000_000, 9_999_999_999_999_999);
    if ($number === null) {
        $errors['number'] = 'is not one of 12 to 16 digits';
    }
    $card = $_POST['card'] ?? '';
    $ship = $_POST['ship'] ?? '';
    $is_known = in_array($card, CARDS, true) && is_string($ship) && isset(SHIPS[$ship]);
    // A country that is not known is no address.
    if (!$errors && $typed['street1'] !== '' && !is_country($typed['country'])) {
        $errors['country'] = 'is not known';
    }
    if ($errors || !$is_known) {
        throw new Refused(422, 'Almost', '', "<h1>Almost</h1>\n" . card_form($typed, $errors));
    }
    $order = transaction(fn() => buy($id, cart_token(), $card, $number % 10_000, $ship, $typed));
    if ($order === null) {
        throw new Refused(409, 'Nothing to buy', '', "<h1>Nothing to buy</h1>\n"
            . "<p>Your cart is empty, or what was in it has just been bought.\n"
            . '<a href="/order/last">Your last order</a>, <a href="/cart">your cart</a></p>'
            . "\n");
    }
    flash('Thank you for your order.');
    return redirect("/order/$order");
}

function is_country(string $name): bool
{
    return row('select 1 from country where co_name = :name', ['name' => $name]) !== null;
}

/**
 * All of it or nothing; the order's number. Who presses twice waits at the cart for the first to be
 * done, and finds it empty. What is paid is summed up from the lines of the order, whatever else is
 * done to the cart.
 */
function buy(int $customer, string $cart, string $card, int $last4, string $ship, array $typed):
    ?int
{
    $to = array_intersect_key($typed, ANOTHER_ADDRESS);
    change(<<<'SQL'
        update shopping_cart set sc_time = substr(cast(current_timestamp as text), 1, 19)
        where sc_token = :cart
        SQL, ['cart' => $cart]);
    if ($to['street1'] !== '') {
        change(<<<'SQL'
            insert into address (addr_street1, addr_street2, addr_city, addr_state, addr_zip,
                addr_co_id)
            select :street1, '', :city, :state, :zip, co_id from country
            where co_name = :country and not exists (
                select 1 from address
                where addr_street1 = :street1 and addr_street2 = '' and addr_city = :city
                    and addr_state = :state and addr_zip = :zip and addr_co_id = co_id)
            SQL, $to);
    }
    $order = row(<<<'SQL'
        insert into orders (o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date,
            o_bill_addr_id, o_ship_addr_id, o_status)
        select c_id, substr(cast(current_timestamp as text), 1, 19), 0, 0, 0, :ship,
            (select later.date from calendar as today join calendar as later
                on later.day = today.day + :days where today.date = cast(current_date as text)),
            c_addr_id, coalesce((
                select min(addr_id) from address join country on co_id = addr_co_id
                where addr_street1 = :street1 and addr_street2 = '' and addr_city = :city
                    and addr_state = :state and addr_zip = :zip and co_name = :country),
                c_addr_id),
            'PENDING'
        from customer where c_id = :customer
        returning o_id
        SQL, ['ship' => $ship, 'days' => SHIPS[$ship], 'customer' => $customer] + $to)['o_id'];
    change(<<<'SQL'
        insert into order_line (ol_o_id, ol_id, ol_i_id, ol_qty, ol_cost, ol_discount, ol_comments)
        select :order, row_number() over (order by i_id), i_id, scl_qty, i_cost, c_discount, ''
        from cart_shown, customer
        where sc_token = :cart and scl_qty > 0 and c_id = :customer
        SQL, ['order' => $order, 'cart' => $cart, 'customer' => $customer]);
    $total = row(<<<'SQL'
        update orders set (o_sub_total, o_tax, o_total) = (
            select sub_total, tax, sub_total + tax + shipping from order_bill
            where ol_o_id = :order)
        where o_id = :order and exists (select 1 from order_line where ol_o_id = :order)
        returning o_total
        SQL, ['order' => $order]);
    if ($total === null) {
        return null;
    }
    change(<<<'SQL'
        insert into cc_xacts (cx_o_id, cx_type, cx_last4, cx_name, cx_expiry, cx_auth_id,
            cx_xact_amt, cx_xact_date, cx_co_id)
        select :order, :card, :last4, :name, :expiry, substr(token, 1, 15), :total,
            cast(current_date as text), addr_co_id
        from fresh, customer join address on addr_id = c_addr_id
        where c_id = :customer
        SQL, [
            'order' => $order, 'card' => $card, 'last4' => $last4, 'name' => $typed['name'],
            'expiry' => $typed['expiry'], 'total' => $total['o_total'], 'customer' => $customer,
        ]);
    // Where fewer than ten would be left, more have come, 21 at a time.
    change(<<<'SQL'
        update item set i_stock = i_stock - ol_qty + case
            when i_stock - ol_qty < 10 then 21 * ((30 - i_stock + ol_qty) / 21) else 0 end
        from order_line where ol_o_id = :order and i_id = ol_i_id
        SQL, ['order' => $order]);
    // What was put into the cart since the lines were read stays in it.
    change(<<<'SQL'
        update shopping_cart_line set scl_qty = (
            select case when scl_qty > ol_qty then scl_qty - ol_qty else 0 end
            from order_line where ol_o_id = :order and ol_i_id = scl_i_id)
        where scl_sc_id = (select sc_id from shopping_cart where sc_token = :cart)
            and scl_i_id in (select ol_i_id from order_line where ol_o_id = :order)
        SQL, ['order' => $order, 'cart' => $cart]);
    change(<<<'SQL'
        delete from shopping_cart_line where scl_qty = 0
            and scl_sc_id = (select sc_id from shopping_cart where sc_token = :cart)
        SQL, ['cart' => $cart]);
    return $order;
}

function order_inquiry(): string
{
    $present = isset($_SESSION['id'])
        ? "<p><a href=\"/order/last\">Your last order</a></p>\n" : '';
    return page('ORDI', 'Your orders', "<h1>Your orders</h1>\n$present" . sign_in_form('/order'));
}

function order_sign_in(): string
{
    return sign_in_from('/order', '/order/last');
}

function last_order(): string
{
    $customer = customer();
    if ($customer === null) {
        return '';
    }
    $order = row('select * from order_shown
        where o_id = (select max(o_id) from orders where o_c_id = :customer)',
        ['customer' => $customer]);
    return $order === null
        ? page('ORDD', 'No orders', text_page('No orders', 'You have given none yet.'))
        : show_order($order, 'Your last order');
}

function order(int $id): string
{
    $customer = customer();
    if ($customer === null) {
        return '';
    }
    $order = row('select * from order_shown where o_id = :id and o_c_id = :customer',
        ['id' => $id, 'customer' => $customer]);
    return show_order($order ?? throw not_here(), "Order $id");
}

function show_order(array $order, string $title): string
{
    $id = $order['o_id'];
    $lines = rows(<<<'SQL'
        select ol_i_id as id, i_title as title, ol_qty as quantity, ol_cost as cost
        from order_line_shown where ol_o_id = :id order by ol_id
        SQL, ['id' => $id]);
    $about = [
        'Given' => "{$order['o_date']} by {$order['c_fname']} {$order['c_lname']}"
            . " ({$order['c_email']})",
        'Status' => strtolower($order['o_status'])
            . ", {$order['o_ship_type']} on {$order['o_ship_date']}",
        'To' => $order['o_shipped_to'],
        'Paid by' => "{$order['o_billed_to']}, with {$order['cx_type']},"
            . " authorization {$order['cx_auth_id']}",
    ];
    $list = '';
    foreach ($about as $what => $text) {
        $list .= "<dt>$what</dt><dd>" . h($text) . "</dd>\n";
    }
    ['o_sub_total' => $sub_total, 'o_tax' => $tax, 'o_total' => $total] = $order;
    return page('ORDD', $title, "<article class=\"order\" data-order=\"$id\">\n<h1>Order $id</h1>\n"
        . "<dl>\n$list</dl>\n" . bill(lines($lines, true), 'Less the discount', $sub_total, $tax,
            $total - $tax - $sub_total) . "</article>\n");
}
