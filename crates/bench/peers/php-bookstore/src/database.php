<?php
// PostgreSQL, by a connection that outlives requests: each of Apache's processes has one.

declare(strict_types=1);

// Purchases of the same items may wait for each other in a circle; one of them is undone then, and
// done again so often.
const RETRIES_MAX = 5;
const UNDONE = ['40001', '40P01'];

function database(): PDO
{
    static $database = null;
    return $database ??= new PDO(
        getenv('BOOKSTORE_DSN') . ";options='-c TimeZone=UTC'",
        options: [
            PDO::ATTR_PERSISTENT => true,
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
            PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
            // Values go apart from the statement, in one message. Without this a statement is
            // prepared, carried out and forgotten again with each request, in three.
            PDO::PGSQL_ATTR_DISABLE_PREPARES => true,
        ],
    );
}

function carry_out(string $statement, array $values): PDOStatement
{
    $prepared = database()->prepare($statement);
    $prepared->execute($values);
    return $prepared;
}

/** All rows, by the names of their columns. */
function rows(string $statement, array $values = []): array
{
    return carry_out($statement, $values)->fetchAll();
}

/** The first row, or nothing. */
function row(string $statement, array $values = []): ?array
{
    return carry_out($statement, $values)->fetch() ?: null;
}

/** How many rows a statement has changed. */
function change(string $statement, array $values = []): int
{
    return carry_out($statement, $values)->rowCount();
}

/**
 * All that it does, or nothing: nothing too where it gives null, or breaks a rule of the database,
 * which gives null.
 */
function transaction(callable $does): mixed
{
    for ($retries = 0; ; $retries++) {
        database()->beginTransaction();
        try {
            $result = $does();
            $result === null ? database()->rollBack() : database()->commit();
            return $result;
        } catch (PDOException $failure) {
            if (database()->inTransaction()) {
                database()->rollBack();
            }
            if (breaks_rule($failure)) {
                return null;
            }
            if ($retries === RETRIES_MAX || !in_array($failure->getCode(), UNDONE, true)) {
                throw $failure;
            }
        }
    }
}

/** Whether what failed broke a constraint: class 23. */
function breaks_rule(PDOException $failure): bool
{
    return str_starts_with((string) $failure->getCode(), '23');
}
