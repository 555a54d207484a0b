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

// usersAtOnce is for how many users a table is asked in one call at most: enough for a
// batch of claims, and few enough that a region server answers at once.
const usersAtOnce = 1024

// OpenUsers returns what a sale declares of its users, and of what they bought in other
// sales. It is safe for concurrent use.
//
// Files are read here, so that the error holds all that is wrong with them, and kept in
// memory. When one has changed it is read again, before an answer would be older than
// spec.Users.Fresh. While it cannot be read, or is bad, lookups fail as soon as what
// is known would be older than that. A table is asked for users that nobody asked for
// within Fresh, for all that are wanted at a time together; what it says is kept for
// spec.Users.Cached of them. It is not connected to before the first lookup.
//
// Of a sale that declares no users, none is known. Call close when no lookup is under
// way any more.
func OpenUsers(sale spec.Sale, schema *rules.Schema) (users rules.Users, close func() error, err error) {
	return openUsers(sale, schema, clock.System())
}

func openUsers(sale spec.Sale, schema *rules.Schema, now clock.Clock) (rules.Users, func() error, error) {
	declared := spec.Users{Fresh: spec.DefaultFresh, Cached: spec.DefaultCached}
	if sale.Users != nil {
		declared = *sale.Users
	}
	tables, fresh := freshness(sale, declared.Fresh)
	o := opener{sale: sale.Name, clock: now, fresh: fresh}
	users, err := o.users(sale.Users, schema)
	if err == nil && sale.History != nil {
		var bought rules.Histories
		if bought, err = o.history(*sale.History); err == nil {
			users = rules.WithHistory(users, schema, bought)
		}
	}
	if err == nil && tables {
		users, err = rules.NewCache(rules.CacheConfig{
			Source: rules.Gather(users, usersAtOnce, lookupPatience), Clock: now, Fresh: fresh, Entries: int(declared.Cached), Batch: usersAtOnce,
		})
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("sale %s: %w", sale.Name, err), o.close())
	}
	return users, o.close, nil
}

// freshness returns whether a sale's users or their history are in a table, and how old
// what is read may become in each place that keeps it, so that no answer is older than
// declared. What a file says is kept twice where a table is asked too: as it was read, and
// in the cache of all answers. What a table says is kept in the cache alone.
func freshness(sale spec.Sale, declared time.Duration) (tables bool, each time.Duration) {
	u, h := sale.Users, sale.History
	tables = u != nil && u.Table != nil || h != nil && h.Table != nil
	files := u != nil && u.Table == nil || h != nil && len(h.Files) > 0
	if tables && files {
		return tables, declared / 2
	}
	return tables, declared
}

// lookupPatience is how long a table may take to answer.
const lookupPatience = 3 * time.Second

// opener opens what users are read from.
type opener struct {
	sale   string
	clock  clock.Clock
	fresh  time.Duration
	closer []func() error
}

func (o *opener) close() error {
	var errs []error
	for _, c := range o.closer {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

func (o *opener) users(declared *spec.Users, schema *rules.Schema) (rules.Users, error) {
	switch {
	case declared == nil:
		return strangers{schema}, nil
	case declared.Table != nil:
		t := declared.Table
		table, err := hbase.OpenUsers(hbase.UsersOptions{
			Options: hbase.Options{Zookeeper: t.Zookeeper, ZookeeperRoot: t.ZookeeperRoot, Table: t.Table},
			Family:  t.Family, Columns: t.Columns, Schema: schema,
		})
		if err != nil {
			return nil, fmt.Errorf("users: %w", err)
		}
		o.closer = append(o.closer, table.Close)
		return table, nil
	case declared.File == "":
		return nil, errors.New("its users are in a file, whose name stands in the sale's file alone")
	}
	file := &watchedUsers{watched[*rules.File]{
		files: func() ([]string, error) { return []string{declared.File}, nil },
		read:  func() (*rules.File, error) { return rules.OpenFile(declared.File, schema) },
		clock: o.clock, fresh: o.fresh, turn: make(chan struct{}, 1),
	}}
	return file, file.load()
}

// history returns what was bought by the files and the table that are declared.
func (o *opener) history(declared spec.History) (rules.Histories, error) {
	var all histories
	if declared.Files != nil && len(declared.Files) == 0 {
		return nil, errors.New("its history is in files, whose names stand in the sale's file alone")
	}
	if t := declared.Table; t != nil {
		table, err := OpenHistoryTable(*t)
		if err != nil {
			return nil, err
		}
		o.closer = append(o.closer, table.Close)
		all = append(all, table)
	}
	if len(declared.Files) > 0 {
		files := &watchedHistory{watched[*rules.HistoryFiles]{
			files: func() ([]string, error) { return rules.HistoryPaths(declared.Files) },
			clock: o.clock, fresh: o.fresh, turn: make(chan struct{}, 1),
		}}
		files.read = func() (*rules.HistoryFiles, error) { return files.next(declared.Files) }
		if err := files.load(); err != nil {
			return nil, err
		}
		all = append(all, files)
	}
	return all, nil
}

// OpenHistoryTable returns the table in which destroy keeps what users bought. It connects
// to nothing before it is used.
func OpenHistoryTable(t spec.HistoryTable) (*hbase.History, error) {
	table, err := hbase.OpenHistory(hbase.HistoryOptions{
		Options: hbase.Options{Zookeeper: t.Zookeeper, ZookeeperRoot: t.ZookeeperRoot, Table: t.Table}, Family: t.Family,
	})
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return table, nil
}

// histories are several, whose purchases count together. Of one run that two of them have,
// the first counts: a table has what a run came to in the end, an export may be an older cut.
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

// CheckUsers asks whether what a sale declares of its users, and of what they bought, can
// be read. The error of a file of users holds all that is wrong with it, each a
// *spec.Problem; so is that of an export that is not there. That of one that cannot be
// read, and of a table which is not there or not as declared, is a *rules.SourceError. Any
// other error is of servers that do not answer.
func CheckUsers(ctx context.Context, sale spec.Sale) error {
	if u := sale.Users; u != nil && u.Table != nil {
		t := u.Table
		err := hbase.CheckRows(ctx, "users", hbase.Options{Zookeeper: t.Zookeeper, ZookeeperRoot: t.ZookeeperRoot, Table: t.Table}, t.Family)
		if err != nil {
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
		return &rules.SourceError{What: err.Error(), Remedy: "Put a whole export there, or name others."}
	}
	if t := sale.History.Table; t != nil {
		return hbase.CheckRows(ctx, "history", hbase.Options{Zookeeper: t.Zookeeper, ZookeeperRoot: t.ZookeeperRoot, Table: t.Table}, t.Family)
	}
	return nil
}

// strangers are users of whom nothing is known.
type strangers struct{ schema *rules.Schema }

func (s strangers) Lookup(_ context.Context, ids []string) ([]rules.Attributes, error) {
	all := make([]rules.Attributes, len(ids))
	for i, id := range ids {
		all[i] = s.schema.Unknown(id)
	}
	return all, nil
}

// watchedUsers is Users of a file that may change.
type watchedUsers struct{ watched[*rules.File] }

func (w *watchedUsers) Lookup(ctx context.Context, ids []string) ([]rules.Attributes, error) {
	file, err := w.current(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	return file.Lookup(ctx, ids)
}

// watchedHistory is Histories of files that may change.
type watchedHistory struct{ watched[*rules.HistoryFiles] }

// next reads the files. A run that was known and is gone from them, or as it was earlier, is
// an error: somebody would be admitted by a folder that is not mounted.
func (w *watchedHistory) next(patterns []string) (*rules.HistoryFiles, error) {
	read, err := rules.OpenHistoryFiles(patterns)
	if known := w.known.Load(); err == nil && known != nil {
		err = read.Continues(known.value)
	}
	return read, err
}

func (w *watchedHistory) History(ctx context.Context, ids []string) ([][]rules.Purchase, error) {
	files, err := w.current(ctx)
	if err != nil {
		return nil, err
	}
	return files.History(ctx, ids)
}
