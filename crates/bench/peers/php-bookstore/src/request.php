<?php
// What a request says, checked, and the answers that are no page of the shop's.

declare(strict_types=1);

/** A request that is not answered as it hoped: with an error's page, or one of its own. */
final class Refused extends Exception
{
    public function __construct(
        public readonly int $status,
        private readonly string $title,
        string $why,
        private readonly ?string $content = null,
    ) {
        parent::__construct($why);
    }

    public function page(): string
    {
        $content = $this->content ?? text_page($this->title, $this->getMessage());
        return page('ERROR', $this->title, $content);
    }
}

function not_here(): Refused
{
    return new Refused(404, 'Not found', 'We have no such thing, or it is not yours.');
}

function bad(string $name): Refused
{
    return new Refused(400, 'Bad request', "There is something wrong with $name.");
}

/** Sends the browser on to another page, by GET. */
function redirect(string $to): string
{
    http_response_code(303);
    header("Location: $to");
    return '';
}

/** Whether it is text of so many characters: UTF-8, and nothing that PostgreSQL does not keep. */
function is_text(mixed $value, int $least, int $most): bool
{
    return is_string($value) && preg_match("/\\A[^\\0]{{$least},$most}\\z/u", $value) === 1;
}

/** A number within bounds that is written as one, or nothing. */
function number(mixed $value, int $least, int $most): ?int
{
    $bounds = ['options' => ['min_range' => $least, 'max_range' => $most]];
    $number = is_string($value) ? filter_var($value, FILTER_VALIDATE_INT, $bounds) : false;
    return $number === false ? null : $number;
}

/** A text of a query or a form, without which there is no page. */
function text(array $from, string $name, int $most, int $least = 0): string
{
    return is_text($from[$name] ?? null, $least, $most) ? $from[$name] : throw bad($name);
}

/** A day as a form sends it: 2031-12-31. */
function is_day(mixed $value): bool
{
    return is_string($value)
        && preg_match('/\A(\d{4})-(\d\d)-(\d\d)\z/', $value, $part) === 1
        && checkdate((int) $part[2], (int) $part[3], (int) $part[1]);
}

/**
 * The fields of a form whose page is shown again with what is wrong: what was typed, and by name
 * what is wrong with it. A field is 'day', or how long its text is, at least and at most.
 */
function fields(array $fields): array
{
    $typed = $errors = [];
    foreach ($fields as $name => $rule) {
        $value = $_POST[$name] ?? '';
        $is_right = $rule === 'day' ? is_day($value) : is_text($value, ...$rule);
        $typed[$name] = is_string($value) ? $value : '';
        if (!$is_right) {
            $errors[$name] = match (true) {
                $value === '' => 'is missing',
                $rule === 'day' => 'is no day',
                default => 'is too long, or no text',
            };
        }
    }
    return [$typed, $errors];
}
