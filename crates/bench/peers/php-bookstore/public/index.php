<?php
// The one program that Apache runs: it finds whom a request is for, and answers it.

declare(strict_types=1);

foreach (['request', 'database', 'visitor', 'html', 'browse', 'cart', 'customer', 'order', 'admin']
    as $part) {
    require __DIR__ . "/../src/$part.php";
}

// A path's pattern, and what answers it by each method.
const ROUTES = [
    '/' => ['GET' => 'home'],
    '/new' => ['GET' => 'new_products'],
    '/best' => ['GET' => 'best_sellers'],
    '/item/(\d{1,18})' => ['GET' => 'product'],
    '/search' => ['GET' => 'search'],
    '/results' => ['GET' => 'results'],
    '/cart' => ['GET' => 'cart', 'POST' => 'change_cart'],
    '/register' => ['GET' => 'register', 'POST' => 'new_customer'],
    '/sign_in' => ['POST' => 'sign_in'],
    '/sign_out' => ['POST' => 'sign_out'],
    '/buy' => ['GET' => 'buy_request', 'POST' => 'buy_confirm'],
    '/order' => ['GET' => 'order_inquiry', 'POST' => 'order_sign_in'],
    '/order/last' => ['GET' => 'last_order'],
    '/order/(\d{1,18})' => ['GET' => 'order'],
    '/admin/item/(\d{1,18})' => ['GET' => 'admin_request', 'POST' => 'admin_confirm'],
];

/** Answers by the page that the path and the method name. */
function answer(): string
{
    $path = explode('?', $_SERVER['REQUEST_URI'], 2)[0];
    $method = $_SERVER['REQUEST_METHOD'] === 'HEAD' ? 'GET' : $_SERVER['REQUEST_METHOD'];
    foreach (ROUTES as $pattern => $by_method) {
        if (!preg_match("~\\A$pattern\\z~", $path, $found)) {
            continue;
        }
        $page = $by_method[$method] ?? null;
        if ($page === null) {
            header('Allow: ' . implode(', ', array_keys($by_method)));
            throw new Refused(405, 'Method not allowed', 'This page is asked for otherwise.');
        }
        meet_visitor();
        if ($method === 'POST') {
            check_token();
        }
        return $page(...array_map('intval', array_slice($found, 1)));
    }
    throw new Refused(404, 'Not found', 'There is no such page.');
}

header('Content-Type: text/html; charset=utf-8');
header('Cache-Control: no-store');
try {
    $page = answer();
} catch (Refused $refused) {
    http_response_code($refused->status);
    $page = $refused->page();
} catch (Throwable $failure) {
    error_log((string) $failure);
    http_response_code(500);
    $page = page('ERROR', 'Error', text_page('Error', 'Please try again later.'));
}
header('Content-Length: ' . strlen($page));
echo $page;
