package embedded

import "zombiezen.com/go/sqlite"

// query calls each with the rows of a statement until there are no more, or each returns false.
// An argument is a string, an int64 or a []byte.
func query(conn *sqlite.Conn, each func(row *sqlite.Stmt) (more bool), sql string, args ...any) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			stmt.BindText(i+1, v)
		case int64:
			stmt.BindInt64(i+1, v)
		case []byte:
			stmt.BindBytes(i+1, v)
		}
	}
	for {
		found, err := stmt.Step()
		if err != nil {
			return err
		}
		if !found || !each(stmt) {
			return stmt.Reset() // otherwise the statement would keep its transaction open
		}
	}
}

// first calls read with the first row of a statement, and reports whether there was one.
func first(conn *sqlite.Conn, read func(row *sqlite.Stmt), sql string, args ...any) (found bool, err error) {
	err = query(conn, func(row *sqlite.Stmt) bool {
		read(row)
		found = true
		return false
	}, sql, args...)
	return found, err
}

// execute runs a statement that returns no rows.
func execute(conn *sqlite.Conn, sql string, args ...any) error {
	return query(conn, func(*sqlite.Stmt) bool { return false }, sql, args...)
}
