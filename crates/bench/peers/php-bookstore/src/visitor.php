<?php
// Who asks: PHP's own session, which somebody has once a page shows him a form.

declare(strict_types=1);

/** Opens the visitor's session to write to it; until it is closed his other requests wait. */
function open_session(): void
{
    if (session_status() !== PHP_SESSION_ACTIVE) {
        session_start([
            'name' => 'session',
            'use_strict_mode' => 1,
            'cookie_httponly' => 1,
            'cookie_samesite' => 'Lax',
            'cache_limiter' => '',
        ]);
    }
}

/** Changes the session, and closes it. */
function with_session(callable $does): void
{
    open_session();
    $does();
    session_write_close();
}

/** Reads the session of who has one, and of nobody else. */
function meet_visitor(): void
{
    $_SESSION = [];
    if (isset($_COOKIE['session'])) {
        with_session(fn() => null);
    }
}

/** The token that his forms are sent with. */
function token(): string
{
    if (!isset($_SESSION['token'])) {
        with_session(fn() => $_SESSION['token'] ??= bin2hex(random_bytes(16)));
    }
    return $_SESSION['token'];
}

/** Refuses a form of another site. */
function check_token(): void
{
    $sent = $_POST['csrf_token'] ?? '';
    if (!isset($_SESSION['token']) || !is_string($sent)
        || !hash_equals($_SESSION['token'], $sent)) {
        throw new Refused(403, 'Forbidden', 'This form was not ours, or is too old.');
    }
}

/** Says this on the next page that he sees. */
function flash(string $text): void
{
    with_session(fn() => $_SESSION['flash'] = $text);
}

/** What there is to say to him, once. */
function take_flash(): ?string
{
    $flash = $_SESSION['flash'] ?? null;
    if ($flash !== null) {
        with_session(function () {
            unset($_SESSION['flash']);
        });
    }
    return $flash;
}

/** Whose number is `$id` is this visitor from now on, in a session that nobody knew before. */
function become(int $id, string $name, bool $is_admin): void
{
    with_session(function () use ($id, $name, $is_admin) {
        session_regenerate_id(true);
        $_SESSION = ['id' => $id, 'name' => $name, 'is_admin' => $is_admin];
    });
}

function forget(): void
{
    open_session();
    session_destroy();
    $_SESSION = [];
    setcookie('session', '', ['path' => '/', 'expires' => 1]);
}

/** The number of the customer who is signed in, or nothing once the browser was sent to do so. */
function customer(): ?int
{
    if (!isset($_SESSION['id'])) {
        flash('Please sign in, or tell us who you are.');
        redirect('/register');
    }
    return $_SESSION['id'] ?? null;
}
