//! `now()` and its like beside encrypted columns.

use super::golden::check;

#[test]
fn moments_are_computed_by_the_proxy_where_an_encrypted_column_takes_them() {
    check(&[
        (
            "SELECT id FROM accounts WHERE opened >= current_date - 30",
            "SELECT id FROM accounts WHERE \"opened$ord\" >= bound('03', ‹GreaterOrEqual moment date›)",
        ),
        (
            "SELECT id FROM accounts WHERE now() - interval '1 day 2 hours' < opened AND id < 5",
            "SELECT id FROM accounts WHERE bound('03', ‹Greater moment timestamp with time zone›) < \"opened$ord\" AND id < 5",
        ),
        (
            "SELECT id FROM accounts WHERE opened BETWEEN (CURRENT_TIMESTAMP - '1 mon'::interval)::date AND 1 + current_date",
            "SELECT id FROM accounts WHERE \"opened$ord\" BETWEEN bound('03', ‹GreaterOrEqual moment date›) AND bound('03', ‹LessOrEqual moment date›)",
        ),
        (
            "SELECT id FROM accounts WHERE opened = (now() AT TIME ZONE 'utc')::date - (INTERVAL '1' DAY)",
            "SELECT id FROM accounts WHERE \"opened$ord\" = bound('03', ‹Equal moment timestamp without time zone›)",
        ),
        (
            "INSERT INTO accounts (id, opened) VALUES (1, now()), (2, current_date + 1)",
            "INSERT INTO accounts (id, \"opened\", \"opened$ord\") VALUES (1, ‹sealed moment date›, label('03', ‹ord moment date›)), (2, ‹sealed moment date›, label('03', ‹ord moment date›))",
        ),
        (
            "UPDATE accounts SET opened = localtimestamp, id = 5 WHERE opened < now()",
            "UPDATE accounts SET \"opened\" = ‹sealed moment date›, \"opened$ord\" = label('03', ‹ord moment date›), id = 5 WHERE \"opened$ord\" < bound('03', ‹Less moment timestamp with time zone›)",
        ),
    ]);
}

#[test]
fn moments_are_chosen_listed_and_copied_like_constants() {
    check(&[
        (
            "SELECT id FROM accounts WHERE opened IN (current_date, date_trunc('week', localtimestamp)::date)",
            "SELECT id FROM accounts WHERE \"opened$ord\" IN (bound('03', ‹Equal moment date›), bound('03', ‹Equal moment date›))",
        ),
        (
            "UPDATE accounts SET opened = coalesce(opened, now()) WHERE id = 5",
            "UPDATE accounts SET \"opened\" = coalesce(opened, ‹sealed moment date›), \"opened$ord\" = coalesce(\"opened$ord\", label('03', ‹ord moment date›)) WHERE id = 5",
        ),
        (
            "UPDATE accounts SET opened = CASE WHEN id = 1 THEN current_date ELSE opened END",
            "UPDATE accounts SET \"opened\" = CASE WHEN id = 1 THEN ‹sealed moment date› ELSE opened END, \"opened$ord\" = CASE WHEN id = 1 THEN label('03', ‹ord moment date›) ELSE \"opened$ord\" END",
        ),
        (
            "INSERT INTO accounts (id, opened) SELECT id + 1, current_date FROM notes",
            "INSERT INTO accounts (id, \"opened\", \"opened$ord\") SELECT id + 1, ‹sealed moment date›, label('03', ‹ord moment date›) FROM notes",
        ),
    ]);
}

#[test]
fn a_moment_is_kept_as_a_default_and_old_rows_get_that_of_now() {
    check(&[
        (
            "ALTER TABLE accounts ALTER COLUMN opened SET DEFAULT current_date + 7",
            "* ALTER TABLE accounts ALTER COLUMN opened SET DEFAULT pg_catalog.decode(‹default moment date›, 'a default that the proxy computes')",
        ),
        (
            "ALTER TABLE accounts ALTER COLUMN balance SET DEFAULT now()",
            "0A000 35: the default of column accounts.balance is no constant or moment: the server would compute it, and see it",
        ),
        (
            "ALTER TABLE accounts ALTER opened SET DEFAULT clock_timestamp()",
            "0A000 28: the default of column accounts.opened is no constant or moment: the server would compute it, and see it",
        ),
    ]);
}

#[test]
fn moments_beside_what_is_not_encrypted_are_the_databases() {
    check(&[
        ("SELECT id FROM accounts WHERE now() > current_date - 1", "unchanged"),
        ("SELECT now(), id FROM accounts WHERE closed IS NULL", "unchanged"),
    ]);
}

#[test]
fn what_the_proxy_does_not_compute_is_refused() {
    check(&[
        (
            "SELECT id FROM accounts WHERE opened > clock_timestamp()",
            "0A000 31: column accounts.opened is encrypted: operator > beside a computed value cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE opened > now() - interval '1.5 days'",
            "0A000 31: column accounts.opened is encrypted: operator > beside a computed value cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE opened > current_timestamp(7)",
            "0A000 31: column accounts.opened is encrypted: operator > beside a computed value cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE opened > current_date - id",
            "0A000 31: column accounts.opened is encrypted: operator > beside a computed value cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE opened > interval '1 day' - now()",
            "0A000 31: column accounts.opened is encrypted: operator > beside a computed value cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE opened > other.now()",
            "0A000 31: column accounts.opened is encrypted: operator > beside a computed value cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE owner > now()",
            "0A000 31: column accounts.owner is encrypted without \"order\": operator > needs it",
        ),
        (
            "SELECT id FROM accounts WHERE opened > date_trunc('fortnight', now())",
            "0A000 31: column accounts.opened is encrypted: operator > beside a computed value cannot read it",
        ),
        (
            "INSERT INTO accounts (id, opened) VALUES (1, now() - $1)",
            "0A000 46: column accounts.opened is encrypted: what is stored there must be a constant or a parameter",
        ),
        (
            "INSERT INTO accounts (id, balance) VALUES (1, now())",
            "0A000 47: column accounts.balance is of type integer, and a value is cast to timestamp with time zone",
        ),
    ]);
}
