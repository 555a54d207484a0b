package backends

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/hbase"
	"salectl/rules"
	"salectl/spec"
)

// usersAtOnce is the maximum number of users in one query of a table: enough for a batch of
// claims, and few enough that a region server answers promptly.
const usersAtOnce = 1024

// OpenUsers returns the users of a sale with their attributes, and with what they bought in
// other sales. They are safe for concurrent use.
//
// The first lookup reads the files, so that its error reports all that is wrong with them. Their
// contents are cached in memory. A changed file is read again before an answer would be older
// than spec.Users.Fresh. While a file is unreadable or bad, lookups fail as soon as the cached
// contents would be older than that. A table is queried for users that were not queried within
// Fresh; concurrent lookups share queries. The answers for up to spec.Users.Cached users are
// cached. OpenUsers itself reads nothing and connects to nothing.
//
// If the sale declares no users, all users are unknown. Call close when no lookup is under way
// any more.
func OpenUsers(sale spec.Sale, schema *rules.Schema) (users rules.Users, close func() error, err error) {
	return openUsers(sale, schema, clock.System())
}

func openUsers(sale spec.Sale, schema *rules.Schema, now clock.Clock) (rules.Users, func() error, error) {
	declared := spec.Users{Fresh: spec.DefaultFresh, Cached: spec.DefaultCached}
	if sale.Users != nil {
		declared = *sale.Users
	}
	tables, fresh := freshness(sale, time.Duration(declared.Fresh))
	o := opener{clock: now, fresh: fresh}
	users, err := o.users(sale.Users, schema)
	if err == nil && sale.History != nil {
		var bought rules.Histories
		if bought, err = o.history(*sale.History); err == nil {
			users = rules.WithHistory(users, bought)
		}
	}
	if err == nil && tables {
		users, err = rules.NewCache(rules.CacheConfig{
			Source: users, Clock: now, Fresh: fresh, Timeout: lookupPatience, Entries: int(declared.Cached), Batch: usersAtOnce,
		})
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("sale %s: %w", sale.Name, err), o.close())
	}
	return users, o.close, nil
}

// freshness reports whether a sale's users or their history are in a table, and returns the
// maximum age of each cached copy such that no answer is older than declared. With a table, the
// contents of files are cached twice: as read, and in the cache of all answers. Those of a
// table are only in the cache of answers.
func freshness(sale spec.Sale, declared time.Duration) (tables bool, each time.Duration) {
	u, h := sale.Users, sale.History
	tables = u != nil && u.Table != nil || h != nil && h.Table != nil
	files := u != nil && u.Table == nil || h != nil && len(h.Files) > 0
	if tables && files {
		return tables, declared / 2
	}
	return tables, declared
}

// lookupPatience is the timeout of a query of a table.
const lookupPatience = 3 * time.Second

// opener opens the sources of users and their history.
type opener struct {
	closers
	clock clock.Clock
	fresh time.Duration
}

func (o *opener) users(declared *spec.Users, schema *rules.Schema) (rules.Users, error) {
	switch {
	case declared == nil:
		return rules.UnknownUsers(schema), nil
	case declared.Table != nil:
		table, err := hbase.OpenUsers(*declared.Table, schema)
		if err != nil {
			return nil, fmt.Errorf("users: %w", err)
		}
		o.closers = append(o.closers, table.Close)
		return table, nil
	case declared.File == "":
		return nil, errors.New("its users are in a file that only the sale file names")
	}
	return &watchedUsers{watched[*rules.File]{
		files: func() ([]string, error) { return []string{declared.File}, nil },
		read:  func(*rules.File) (*rules.File, error) { return rules.OpenFile(declared.File, schema) },
		clock: o.clock, fresh: o.fresh, turn: make(chan struct{}, 1),
	}}, nil
}

// history opens the declared files and table of purchases.
func (o *opener) history(declared spec.History) (rules.Histories, error) {
	var all histories
	if declared.Files != nil && len(declared.Files) == 0 {
		return nil, errors.New("its history is in files that only the sale file names")
	}
	if t := declared.Table; t != nil {
		table, err := OpenHistoryTable(*t)
		if err != nil {
			return nil, err
		}
		o.closers = append(o.closers, table.Close)
		all = append(all, table)
	}
	if len(declared.Files) > 0 {
		files := &watchedHistory{watched[*rules.HistoryFiles]{
			files: func() ([]string, error) { return rules.HistoryPaths(declared.Files) },
			read: func(before *rules.HistoryFiles) (*rules.HistoryFiles, error) {
				// A folder that is not mounted would otherwise admit users.
				read, err := rules.OpenHistoryFiles(declared.Files)
				if err == nil && before != nil {
					err = read.Continues(before)
				}
				return read, err
			},
			clock: o.clock, fresh: o.fresh, turn: make(chan struct{}, 1),
		}}
		all = append(all, files)
	}
	return all, nil
}

// OpenHistoryTable returns the table in which destroy stores what users bought. It connects on
// first use.
func OpenHistoryTable(t spec.Rows) (*hbase.History, error) {
	table, err := hbase.OpenHistory(t)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return table, nil
}

// histories merges several sources of purchases. If two have the same run, the first counts: a
// table has the final purchases of a run, an export may be an earlier state.
type histories []rules.Histories

func (h histories) History(ctx context.Context, ids []string) ([][]rules.Purchase, error) {
	all := make([][]rules.Purchase, len(ids))
	for _, one := range h {
		bought, err := one.History(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i, list := range bought {
			for _, p := range list {
				if !slices.ContainsFunc(all[i], func(q rules.Purchase) bool { return q.Run == p.Run }) {
					all[i] = append(all[i], p)
				}
			}
		}
	}
	return all, nil
}

// CheckUsers checks whether the sources of a sale's users and of their purchases can be read.
// The error of a file of users holds all that is wrong with it, each a *spec.Problem, as does
// that of a missing export. The error of an unreadable export, or of a table that is missing or
// not as declared, is a *rules.SourceError. Any other error is that of servers that do not answer.
func CheckUsers(ctx context.Context, sale spec.Sale) error {
	if u := sale.Users; u != nil && u.Table != nil {
		if err := hbase.CheckRows(ctx, "users", u.Table.Rows); err != nil {
			return err
		}
	} else if u != nil {
		if _, err := rules.OpenFile(u.File, rules.SchemaFor(sale)); err != nil {
			return err
		}
	}
	if sale.History == nil {
		return nil
	}
	if _, err := rules.OpenHistoryFiles(sale.History.Files); len(spec.Problems(err)) > 0 {
		return err
	} else if err != nil {
		return &rules.SourceError{What: err.Error(), Remedy: "Put a complete export there, or name other files."}
	}
	if t := sale.History.Table; t != nil {
		return hbase.CheckRows(ctx, "history", *t)
	}
	return nil
}

// watchedUsers implements rules.Users on a file that may change.
type watchedUsers struct{ watched[*rules.File] }

func (w *watchedUsers) Lookup(ctx context.Context, ids []string) ([]rules.Attributes, error) {
	file, err := w.current(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	return file.Lookup(ctx, ids)
}

// watchedHistory implements rules.Histories on files that may change.
type watchedHistory struct{ watched[*rules.HistoryFiles] }

func (w *watchedHistory) History(ctx context.Context, ids []string) ([][]rules.Purchase, error) {
	files, err := w.current(ctx)
	if err != nil {
		return nil, err
	}
	return files.History(ctx, ids)
}
