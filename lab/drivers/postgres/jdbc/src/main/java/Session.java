import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.net.URI;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;

/**
 * A session through pgjdbc: {@code Session URL [--extra]}; schema.toml says which of its columns are encrypted.
 *
 * <p>Prints one line of JSON a step: steps run on a database in plaintext and through the proxy, and their lines are
 * compared. A step that fails in plaintext where it should not ends the program with status 1.
 */
public final class Session {
    private static final String CREATE = "CREATE TABLE orders (id serial PRIMARY KEY, customer varchar(40) NOT NULL, "
        + "amount numeric(12,2), pieces integer, big bigint, small smallint, weight float8, ratio real, day date, "
        + "made timestamp, sent timestamptz, paid boolean, token uuid UNIQUE, photo bytea, note text)";
    private static final String INSERT = "INSERT INTO orders (customer, amount, pieces, big, small, weight, ratio, day, made, "
        + "sent, paid, token, photo, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

    /** What a step does. */
    private interface Operation {
        Object run() throws Exception;
    }

    private final String url;
    private final boolean extra;
    private final String mode;

    private Session(String url, boolean extra, String mode) {
        this.url = url;
        this.extra = extra;
        this.mode = mode;
    }

    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create(arguments[0]);
        String[] user = uri.getUserInfo().split(":", 2);
        String base = "jdbc:postgresql://" + uri.getHost() + ":" + uri.getPort() + uri.getPath() + "?" + uri.getRawQuery()
            + "&user=" + user[0] + "&password=" + user[1].replace(" ", "%20") + "&options=-c%20TimeZone=UTC";
        boolean extra = Arrays.asList(arguments).contains("--extra");
        // Text by the simple protocol; binary and prepared at once.
        for (String mode : List.of("simple", "extended")) {
            String parameters = mode.equals("simple") ? "&preferQueryMode=simple" : "&prepareThreshold=1&reWriteBatchedInserts=true";
            new Session(base + parameters, extra, mode).run();
        }
    }

    private void run() throws Exception {
        try (Connection db = DriverManager.getConnection(url)) {
            step("create", null, () -> execute(db, CREATE));
            step("insert", null, () -> insert(db));
            step("rows", null, () -> query(db, "SELECT * FROM orders ORDER BY id"));
            if (mode.equals("extended")) {
                step("described", null, () -> described(db));
            }
            queries(db);
            step("batch", null, () -> batch(db));
            step("batched", null, () -> query(db, "SELECT pieces, count(*), sum(amount), max(customer) FROM orders WHERE big = 7 GROUP BY pieces ORDER BY pieces"));
            step("wrong batch", "23505", () -> wrongBatch(db));
            changes(db);
            errors(db);
            step("transaction", null, () -> transaction(db));
            step("fetch size", null, () -> fetched(db));
            copies(db);
            step("time limit", "57014", () -> limited(db));
            step("columns", null, () -> columns(db));
            step("drop", null, () -> execute(db, "DROP TABLE orders"));
        }
    }

    private void queries(Connection db) throws Exception {
        Object[][] queries = {
            {"equal", "SELECT id FROM orders WHERE customer = ?", "Ann"},
            {"not equal", "SELECT id FROM orders WHERE customer <> ? ORDER BY id", "Ann"},
            {"decimal", "SELECT id FROM orders WHERE amount = ?", new BigDecimal("10.50")},
            {"less", "SELECT id FROM orders WHERE amount < ? ORDER BY amount", new BigDecimal("10.6")},
            {"integer", "SELECT id, pieces FROM orders WHERE pieces > ? ORDER BY pieces DESC", 0},
            {"long", "SELECT id FROM orders WHERE big = ?", Long.MAX_VALUE},
            {"short", "SELECT id FROM orders WHERE small = ?", (short) -32768},
            {"double", "SELECT id FROM orders WHERE weight >= ? ORDER BY weight", 0.5},
            {"float", "SELECT id FROM orders WHERE ratio = ?", 0.25f},
            {"date", "SELECT id, day FROM orders WHERE day <= ? ORDER BY day", LocalDate.of(2024, 2, 29)},
            {"timestamp", "SELECT id FROM orders WHERE made = ?", LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4000)},
            {"moment", "SELECT id FROM orders WHERE sent > ?", OffsetDateTime.of(1999, 1, 1, 0, 0, 0, 0, ZoneOffset.ofHours(2))},
            {"boolean", "SELECT id FROM orders WHERE paid = ?", true},
            {"uuid", "SELECT id FROM orders WHERE token = ?", new UUID(1, 2)},
            {"any", "SELECT id FROM orders WHERE customer = ANY(?) ORDER BY id", db.createArrayOf("varchar", new Object[] {"Ann", "Åsa"})},
            {"group", "SELECT paid, count(*), sum(pieces), min(day) FROM orders WHERE id > ? GROUP BY paid ORDER BY count(*), min(day)", 0},
            {"order", "SELECT customer FROM orders WHERE id > ? ORDER BY customer DESC LIMIT 2", 0},
            {"null", "SELECT id FROM orders WHERE amount IS NULL AND id > ?", 0},
        };
        for (Object[] one : queries) {
            step((String) one[0], null, () -> {
                List<Object> twice = new ArrayList<>();
                try (PreparedStatement statement = db.prepareStatement((String) one[1])) {
                    for (int time = 0; time < 2; time++) {
                        statement.setObject(1, one[2]);
                        twice.add(rows(statement.executeQuery()));
                    }
                }
                return twice;
            });
        }
    }

    private Object insert(Connection db) throws SQLException {
        Object[][] rows = {
            {"Ann", new BigDecimal("10.50"), 1, Long.MAX_VALUE, (short) 1, 0.5, 0.25f, LocalDate.of(2024, 2, 29),
                LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4000), OffsetDateTime.of(2024, 2, 29, 1, 2, 3, 0, ZoneOffset.ofHours(5)),
                true, new UUID(1, 2), new byte[] {0, -1, 7}, "it's \\ \"quoted\" 日本語 🎈"},
            {"Åsa", new BigDecimal("-9999999999.99"), Integer.MIN_VALUE, 0L, (short) -32768, Double.NaN, Float.POSITIVE_INFINITY,
                LocalDate.of(1, 1, 1), LocalDateTime.of(1970, 1, 1, 0, 0), OffsetDateTime.of(1970, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC),
                false, new UUID(0, 0), new byte[0], ""},
            {"Bob", null, null, null, null, null, null, null, null, null, null, null, null, null},
        };
        List<Object> ids = new ArrayList<>();
        for (Object[] row : rows) {
            try (PreparedStatement statement = db.prepareStatement(INSERT, Statement.RETURN_GENERATED_KEYS)) {
                for (int place = 0; place < row.length; place++) {
                    statement.setObject(place + 1, row[place]);
                }
                statement.executeUpdate();
                ids.add(rows(statement.getGeneratedKeys()));
            }
        }
        return ids;
    }

    private Object batch(Connection db) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement("INSERT INTO orders (customer, amount, pieces, big) VALUES (?, ?, ?, ?)")) {
            for (int number = 0; number < 100; number++) {
                statement.setString(1, "batch " + number);
                statement.setBigDecimal(2, new BigDecimal(number));
                statement.setInt(3, number % 5);
                statement.setLong(4, 7);
                statement.addBatch();
            }
            return Arrays.stream(statement.executeBatch()).map(count -> count == Statement.SUCCESS_NO_INFO ? 1 : count).sum();
        }
    }

    private Object wrongBatch(Connection db) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement("INSERT INTO orders (customer, token) VALUES (?, ?)")) {
            for (int number = 0; number < 3; number++) {
                statement.setString(1, "wrong " + number);
                statement.setObject(2, new UUID(9, number % 2));
                statement.addBatch();
            }
            return statement.executeBatch().length;
        }
    }

    private void changes(Connection db) throws Exception {
        step("update", null, () -> update(db, "UPDATE orders SET note = ?, paid = ? WHERE customer = ?", "new", true, "none"));
        step("update one", null, () -> update(db, "UPDATE orders SET note = ? WHERE customer = ?", "new", "Ann"));
        step("update from old", null, () -> update(db, "UPDATE orders SET pieces = pieces + ? WHERE customer = ?", 5, "Ann"));
        step("on conflict", null, () -> update(db, "INSERT INTO orders (customer, token) VALUES (?, ?) ON CONFLICT (token) DO UPDATE SET customer = EXCLUDED.customer", "Eve", new UUID(1, 2)));
        step("returning", null, () -> query(db, "UPDATE orders SET small = 9 WHERE token = '00000000-0000-0001-0000-000000000002' RETURNING customer, pieces, small, note"));
        step("delete", null, () -> update(db, "DELETE FROM orders WHERE pieces = ? AND amount > ?", 4, new BigDecimal(50)));
        step("left", null, () -> query(db, "SELECT count(*), sum(amount), sum(pieces) FROM orders WHERE pieces > 0"));
        step("updatable", null, () -> {
            try (Statement statement = db.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
                ResultSet rows = statement.executeQuery("SELECT id, customer, note FROM orders WHERE customer = 'Eve'");
                rows.next();
                rows.updateString("note", "by the result");
                rows.updateRow();
                return query(db, "SELECT note FROM orders WHERE customer = 'Eve'");
            }
        });
    }

    private void errors(Connection db) throws Exception {
        step("duplicate", "23505", () -> update(db, "INSERT INTO orders (customer, token) VALUES (?, ?)", "x", new UUID(1, 2)));
        step("not null", "23502", () -> execute(db, "INSERT INTO orders (note) VALUES ('x')"));
        step("no column", "42703", () -> query(db, "SELECT custom FROM orders"));
        step("no table", "42P01", () -> query(db, "SELECT customer FROM order_s"));
        step("too long", "22001", () -> update(db, "UPDATE orders SET customer = ? WHERE id = ?", "x".repeat(41), 1));
        step("division", "22012", () -> query(db, "SELECT 1/0"));
        step("goes on", null, () -> query(db, "SELECT count(customer) FROM orders"));
        if (extra) {
            refused("like", () -> query(db, "SELECT id FROM orders WHERE customer LIKE 'A%'"));
        }
    }

    private Object transaction(Connection db) throws SQLException {
        db.setAutoCommit(false);
        List<Object> seen = new ArrayList<>();
        execute(db, "UPDATE orders SET note = 'kept' WHERE customer = 'Bob'");
        Savepoint savepoint = db.setSavepoint();
        execute(db, "DELETE FROM orders");
        seen.add(query(db, "SELECT count(*) FROM orders"));
        db.rollback(savepoint);
        db.commit();
        execute(db, "UPDATE orders SET note = 'lost' WHERE customer = 'Bob'");
        db.rollback();
        seen.add(query(db, "SELECT note FROM orders WHERE customer = 'Bob'"));
        db.commit();
        db.setAutoCommit(true);
        return seen;
    }

    private Object fetched(Connection db) throws SQLException {
        db.setAutoCommit(false);
        int rows = 0;
        String last = "";
        try (PreparedStatement statement = db.prepareStatement("SELECT customer, amount FROM orders WHERE big = ? ORDER BY amount")) {
            statement.setFetchSize(7);
            statement.setLong(1, 7);
            ResultSet result = statement.executeQuery();
            while (result.next()) {
                rows++;
                last = result.getString(1) + " " + result.getBigDecimal(2);
            }
        }
        db.commit();
        db.setAutoCommit(true);
        return List.of(rows, last);
    }

    private void copies(Connection db) throws Exception {
        var copies = db.unwrap(PGConnection.class).getCopyAPI();
        step("copy in", null, () -> copies.copyIn("COPY orders (customer, amount, big) FROM STDIN", new StringReader("Ann\t1\t8\nBob\t\\N\t8\n")));
        step("copy out", null, () -> {
            StringWriter out = new StringWriter();
            long rows = copies.copyOut("COPY (SELECT customer, amount FROM orders WHERE big = 8 ORDER BY customer) TO STDOUT WITH (FORMAT csv)", out);
            return List.of(rows, out.toString());
        });
        step("copy of a wrong row", "22P02", () -> copies.copyIn("COPY orders (customer, big) FROM STDIN", new StringReader("c\tmany\n")));
    }

    private Object limited(Connection db) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.setQueryTimeout(1);
            return rows(statement.executeQuery("SELECT customer, pg_sleep(3600) FROM orders LIMIT 1"));
        }
    }

    private Object columns(Connection db) throws SQLException {
        DatabaseMetaData data = db.getMetaData();
        List<Object> columns = new ArrayList<>();
        try (ResultSet rows = data.getColumns(null, "public", "orders", "%")) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME") + " " + rows.getInt("COLUMN_SIZE") + " " + rows.getString("IS_NULLABLE"));
            }
        }
        columns.sort((left, right) -> left.toString().compareTo(right.toString()));
        try (ResultSet rows = data.getPrimaryKeys(null, "public", "orders")) {
            columns.add(rows.next() ? rows.getString("COLUMN_NAME") : null);
        }
        return columns;
    }

    private static Object described(Connection db) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement("SELECT * FROM orders WHERE customer = ?")) {
            ResultSetMetaData data = statement.getMetaData();
            List<Object> columns = new ArrayList<>();
            for (int column = 1; column <= data.getColumnCount(); column++) {
                columns.add(data.getColumnName(column) + " " + data.getColumnTypeName(column) + " " + data.getPrecision(column) + " " + data.getColumnClassName(column));
            }
            return columns;
        }
    }

    private static Object execute(Connection db, String text) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute(text);
            return statement.getUpdateCount();
        }
    }

    private static Object update(Connection db, String text, Object... values) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(text)) {
            for (int place = 0; place < values.length; place++) {
                statement.setObject(place + 1, values[place]);
            }
            return statement.executeUpdate();
        }
    }

    private static Object query(Connection db, String text) throws SQLException {
        try (Statement statement = db.createStatement()) {
            return rows(statement.executeQuery(text));
        }
    }

    private static List<Object> rows(ResultSet result) throws SQLException {
        List<Object> rows = new ArrayList<>();
        while (result.next()) {
            List<Object> row = new ArrayList<>();
            for (int column = 1; column <= result.getMetaData().getColumnCount(); column++) {
                Object value = result.getObject(column);
                row.add(value instanceof byte[] bytes ? Arrays.toString(bytes) : value);
            }
            rows.add(row);
        }
        return rows;
    }

    private void step(String name, String expected, Operation operation) throws Exception {
        String[] state = new String[1];
        String reply = reply(operation, state);
        if (!extra && !java.util.Objects.equals(state[0], expected)) {
            throw new AssertionError(mode + ", " + name + ": " + reply);
        }
        System.out.println("{\"step\": " + json(mode + ", " + name) + ", \"reply\": " + reply + "}");
    }

    /** A step that the proxy refuses, and plaintext does not. */
    private void refused(String name, Operation operation) throws Exception {
        String[] state = new String[1];
        String reply = reply(operation, state);
        System.out.println("{\"step\": " + json(mode + ", refused: " + name) + ", \"reply\": " + reply + ", \"extra\": " + "0A000".equals(state[0]) + "}");
    }

    private static String reply(Operation operation, String[] state) throws Exception {
        try {
            return json(operation.run());
        } catch (SQLException error) {
            // Of a batch, what it ended by is behind.
            SQLException cause = error.getNextException() == null ? error : error.getNextException();
            String position = cause instanceof PSQLException own && own.getServerErrorMessage() != null
                ? own.getServerErrorMessage().getMessage() : cause.getMessage();
            state[0] = cause.getSQLState();
            return json(List.of(state[0], position));
        }
    }

    private static String json(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof Integer || value instanceof Boolean) {
            return value.toString();
        }
        if (value instanceof List<?> list) {
            StringBuilder out = new StringBuilder("[");
            for (Object item : list) {
                out.append(out.length() > 1 ? ", " : "").append(json(item));
            }
            return out.append("]").toString();
        }
        StringBuilder out = new StringBuilder("\"");
        value.toString().codePoints().forEach(point -> {
            if (point == '"' || point == '\\') {
                out.append('\\').appendCodePoint(point);
            } else if (point < 0x20) {
                out.append(String.format("\\u%04x", point));
            } else {
                out.appendCodePoint(point);
            }
        });
        return out.append('"').toString();
    }
}
