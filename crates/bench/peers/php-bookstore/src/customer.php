<?php
// Customers: CREG, and who signs in, out or up.

declare(strict_types=1);

// Each field of a new customer: what it is called, its kind, and how long it is, at least and at
// most.
const CUSTOMER = [
    'uname' => ['User name', 'text', 1, 40],
    'password' => ['Password', 'password', 1, 80],
    'fname' => ['First name', 'text', 1, 30],
    'lname' => ['Last name', 'text', 1, 30],
    'street1' => ['Street', 'text', 1, 40],
    'street2' => ['', 'hidden', 0, 40],
    'city' => ['City', 'text', 1, 30],
    'state' => ['State', 'text', 0, 20],
    'zip' => ['Zip code', 'text', 1, 10],
    'country' => ['Country', 'text', 1, 50],
    'phone' => ['Phone', 'tel', 1, 16],
    'email' => ['E-mail', 'email', 1, 50],
    'birthdate' => ['Date of birth', 'date', 10, 10],
    'data' => ['Something about you', 'area', 0, 500],
];

function sign_in_form(string $to): string
{
    return "<form class=\"fields\" method=\"post\" action=\"$to\">" . token_input() . "\n"
        . field('uname', 'User name', 'required maxlength="40" autocomplete="username"')
        . field('password', 'Password',
            'type="password" required maxlength="80" autocomplete="current-password"')
        . "<button>Sign in</button>\n</form>\n";
}

/** The form of a new customer: empty, or again with what was typed and what is wrong with it. */
function customer_form(array $typed = [], array $errors = []): string
{
    $form = '<form class="fields" method="post" action="/register">' . token_input() . "\n";
    foreach (CUSTOMER as $name => [$label, $kind, $least, $most]) {
        $value = $kind === 'password' ? '' : $typed[$name] ?? '';
        $required = $least > 0 ? 'required ' : '';
        $form .= match ($kind) {
            'hidden' => '',
            'area' => '<label>' . h($label) . " <textarea name=\"$name\" maxlength=\"$most\"\n"
                . 'rows="3">' . h($value) . "</textarea></label>\n",
            default => field($name, $label, "type=\"$kind\" {$required}maxlength=\"$most\"",
                $value, $errors[$name] ?? ''),
        };
    }
    return "$form<button>Register</button>\n</form>\n";
}

function register(): string
{
    $present = '';
    if (isset($_SESSION['id'])) {
        $present = '<p>You are ' . h($_SESSION['name'])
            . '. <a class="go" href="/buy">Go on</a></p>' . "\n";
    }
    return page('CREG', 'Who are you?', "<h1>Who are you?</h1>\n$present"
        . "<h2>You have been here before</h2>\n" . sign_in_form('/sign_in')
        . "<h2>You are new</h2>\n" . customer_form());
}

function register_again(array $typed, array $errors, string $message = ''): Refused
{
    $message = $message === '' ? '' : '<p class="wrong">' . h($message) . "</p>\n";
    return new Refused(422, 'Almost', '',
        "<h1>Almost</h1>\n$message" . customer_form($typed, $errors));
}

function new_customer(): string
{
    $rule = fn(array $field) => $field[1] === 'date' ? 'day' : array_slice($field, 2);
    [$typed, $errors] = fields(array_map($rule, CUSTOMER));
    if ($errors) {
        throw register_again($typed, $errors);
    }
    $id = transaction(fn() => make_customer($typed));
    if ($id === null) {
        throw register_again($typed, [],
            'The user name is another customer\'s, or we do not know the country.');
    }
    become($id, "{$typed['fname']} {$typed['lname']}", false);
    return redirect('/buy');
}

/** The new customer's number; nothing where there is no such country. */
function make_customer(array $typed): ?int
{
    $of = fn(string ...$names) => array_intersect_key($typed, array_flip($names));
    $place = row(<<<'SQL'
        insert into address (addr_street1, addr_street2, addr_city, addr_state, addr_zip,
            addr_co_id)
        select :street1, :street2, :city, :state, :zip, co_id from country
        where co_name = :country
        returning addr_id
        SQL, $of('street1', 'street2', 'city', 'state', 'zip', 'country'));
    if ($place === null) {
        return null;
    }
    $salt = bin2hex(random_bytes(16));
    return row(<<<'SQL'
        insert into customer (c_uname, c_salt, c_digest, c_fname, c_lname, c_addr_id, c_phone,
            c_email, c_since, c_last_login, c_login, c_discount, c_birthdate, c_data)
        values (:uname, :salt, :digest, :fname, :lname, :place, :phone, :email,
            cast(current_date as text), cast(current_date as text),
            substr(cast(current_timestamp as text), 1, 19), (select id % 51 from drawn),
            :birthdate, :data)
        returning c_id
        SQL, [
            'salt' => $salt,
            'digest' => md5($salt . $typed['password']),
            'place' => $place['addr_id'],
        ] + $of('uname', 'fname', 'lname', 'phone', 'email', 'birthdate', 'data'))['c_id'];
}

function sign_in(): string
{
    return sign_in_from('/sign_in', '/buy');
}

/** Signs in who says his name and password in the form at `$from`, and sends him on. */
function sign_in_from(string $from, string $to): string
{
    $name = text($_POST, 'uname', 40);
    $password = text($_POST, 'password', 80);
    $known = row(<<<'SQL'
        select c_id, c_salt, c_digest, c_is_admin, c_fname || ' ' || c_lname as name
        from customer where c_uname = :uname
        SQL, ['uname' => $name]);
    if ($known === null || !is_password($known, $name, $password)) {
        throw new Refused(403, 'Not quite', '', "<h1>Not quite</h1>\n"
            . "<p>We know nobody of that name and password. Please try again.</p>\n"
            . sign_in_form($from));
    }
    change(<<<'SQL'
        update customer set c_last_login = substr(c_login, 1, 10),
            c_login = substr(cast(current_timestamp as text), 1, 19) where c_id = :id
        SQL, ['id' => $known['c_id']]);
    become($known['c_id'], $known['name'], $known['c_is_admin'] === 1);
    return redirect($to);
}

/** Who was there from the beginning has the standard's password, the name in small letters. */
function is_password(array $known, string $name, string $password): bool
{
    return $known['c_digest'] === ''
        ? hash_equals(strtolower($name), $password)
        : hash_equals($known['c_digest'], md5($known['c_salt'] . $password));
}

function sign_out(): string
{
    forget();
    return redirect('/');
}
