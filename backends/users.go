package backends

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"salectl/backends/clock"
	"salectl/backends/hbase"
	"salectl/rules"
	"salectl/spec"
)

// usersAtOnce is for how many users a table is asked in one call at most: enough for a
// batch of claims, and few enough that a region server answers at once.
const usersAtOnce = 1024

// OpenUsers returns what a sale declares of its users. It is safe for concurrent use.
//
// A file is read here, so that the error holds all that is wrong with it, and kept in
// memory. When it has changed it is read again, before an answer would be older than
// spec.Users.Fresh. While it cannot be read, or is bad, lookups fail as soon as what
// is known would be older than that. A table is asked for users that nobody asked for
// within Fresh; what it says is kept for spec.Users.Cached of them. It is not
// connected to before the first lookup.
//
// Of a sale that declares no users, none is known. Call close when no lookup is under
// way any more.
func OpenUsers(sale spec.Sale, schema *rules.Schema) (users rules.Users, close func() error, err error) {
	return openUsers(sale, schema, clock.System())
}

func openUsers(sale spec.Sale, schema *rules.Schema, now clock.Clock) (rules.Users, func() error, error) {
	nothing := func() error { return nil }
	switch declared := sale.Users; {
	case declared == nil:
		return strangers{schema}, nothing, nil
	case declared.Table != nil:
		table, err := hbase.OpenUsers(hbase.UsersOptions{
			Options: hbase.Options{Zookeeper: declared.Table.Zookeeper, ZookeeperRoot: declared.Table.ZookeeperRoot, Table: declared.Table.Table},
			Family:  declared.Table.Family, Columns: declared.Table.Columns, Schema: schema,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("sale %s: users: %w", sale.Name, err)
		}
		cache, err := rules.NewCache(rules.CacheConfig{
			Source: table, Clock: now, Fresh: declared.Fresh, Entries: int(declared.Cached), Batch: usersAtOnce,
		})
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("sale %s: users: %w", sale.Name, err), table.Close())
		}
		return cache, table.Close, nil
	case declared.File == "":
		return nil, nil, fmt.Errorf("sale %s: its users are in a file, whose name stands in the sale's file alone", sale.Name)
	}
	file := &watchedFile{path: sale.Users.File, schema: schema, clock: now, fresh: sale.Users.Fresh, turn: make(chan struct{}, 1)}
	if err := file.load(); err != nil {
		return nil, nil, err
	}
	return file, nothing, nil
}

// CheckUsers asks whether what a sale declares of its users can be read. The error of a
// file holds all that is wrong with it, each a *spec.Problem. That of a table which is not
// there, or not as declared, is a *rules.SourceError. Any other error is of servers that
// do not answer.
func CheckUsers(ctx context.Context, sale spec.Sale) error {
	switch declared := sale.Users; {
	case declared == nil:
		return nil
	case declared.Table != nil:
		return hbase.CheckUsers(ctx, hbase.Options{
			Zookeeper: declared.Table.Zookeeper, ZookeeperRoot: declared.Table.ZookeeperRoot, Table: declared.Table.Table,
		}, declared.Table.Family)
	default:
		_, err := rules.OpenFile(declared.File, rules.SchemaFor(sale))
		return err
	}
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

// watchedFile is Users of a file that may change.
type watchedFile struct {
	path   string
	schema *rules.Schema
	clock  clock.Clock
	fresh  time.Duration

	// turn has room for the one lookup that looks at the file, or at the fields below.
	turn chan struct{}
	// users are what the file held when it was looked at last and could be read.
	users  *rules.File
	seen   fs.FileInfo // of the file as it was read
	looked clock.Now   // when it was found to be so
	// tried is when reading failed last, with err; nil: it has not since looked.
	tried clock.Now
	err   error
}

// tryAgain is how long after a failure the file is left alone: a large one costs time to
// read, and a bad one stays bad until somebody mends it.
const tryAgain = time.Second

// Lookup implements rules.Users.
func (f *watchedFile) Lookup(ctx context.Context, ids []string) ([]rules.Attributes, error) {
	users, err := f.current(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	return users.Lookup(ctx, ids)
}

// current returns the users as the file has had them within fresh.
func (f *watchedFile) current(ctx context.Context) (*rules.File, error) {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-f.turn }()
	now := f.clock()
	switch {
	case now.Since(f.looked) <= f.fresh:
		return f.users, nil
	case f.err != nil && now.Since(f.tried) < tryAgain:
		return nil, f.err
	}
	f.err = f.load()
	f.tried = f.clock()
	return f.users, f.err
}

// load looks at the file, and reads it if it has changed. What is known ages from before
// the last look.
func (f *watchedFile) load() error {
	looked := f.clock()
	before, err := os.Stat(f.path)
	if err == nil && f.seen != nil && unchanged(f.seen, before) {
		f.looked = looked
		return nil
	}
	// A file that is not there is reported as reading does.
	users, err := rules.OpenFile(f.path, f.schema)
	if err != nil {
		return err
	}
	looked = f.clock()
	after, err := os.Stat(f.path)
	if err != nil || before == nil || !unchanged(before, after) {
		return fmt.Errorf("%s has changed while it was read: put a new file in its place at once, by renaming it", f.path)
	}
	f.users, f.seen, f.looked = users, after, looked
	return nil
}

// unchanged reports whether a file is the same as before, as far as can be told without
// reading it.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
