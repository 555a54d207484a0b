package hbase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	"salectl/rules"
	"salectl/spec"
)

// Users implements rules.Users on a table that is written by others. Cells are texts in the
// form of rules.ParseValue; an empty cell is a missing value. A user is known if its row has
// one of the columns. Users only reads, and reads the newest version of a cell.
type Users struct {
	logs    *Logs // for its connections and its table, which has no logs
	schema  *rules.Schema
	family  string
	columns []string       // by attribute
	index   map[string]int // from a column to its attribute
}

var _ rules.Users = (*Users)(nil)

// OpenUsers returns a handle on the users of a table, with the attributes of a schema. Like Open,
// it connects to nothing. Close releases its connections.
func OpenUsers(t spec.UsersTable, schema *rules.Schema) (*Users, error) {
	u := &Users{schema: schema, family: t.Family, index: map[string]int{}}
	for i, a := range schema.Attributes() {
		column := cmp.Or(t.Columns[a.Name], a.Name)
		u.index[column] = i
		u.columns = append(u.columns, column)
	}
	logs, err := openRows(t.Rows)
	u.logs = logs
	return u, err
}

// openRows opens a table that has no logs.
func openRows(t spec.Rows) (*Logs, error) {
	return Open(Options{Zookeeper: t.Zookeeper, ZookeeperRoot: t.ZookeeperRoot, Table: t.Table})
}

// CheckRows queries the master whether the table and the family for rows of users exist; if
// not, the error is a *rules.SourceError. The table's other settings are left to its owner.
// what is the purpose of the table, for errors: users, history.
func CheckRows(ctx context.Context, what string, t spec.Rows) error {
	l, err := openRows(t)
	if err != nil {
		return err
	}
	defer l.Close()
	var found *pb.TableSchema
	err = l.call("check the table", func() (err error) {
		found, err = l.described(ctx)
		return err
	})
	switch {
	case errors.Is(err, ledger.ErrNoTable):
		return &rules.SourceError{
			What:   fmt.Sprintf("%s table %s does not exist (ZooKeeper %s)", what, l.table, strings.Join(t.Zookeeper, ",")),
			Remedy: fmt.Sprintf("Create it in the HBase shell: create '%s', '%s'. Or name the table that is there.", l.table, t.Family),
		}
	case err != nil:
		return err
	}
	var there []string
	for _, f := range found.GetColumnFamilies() {
		if string(f.GetName()) == t.Family {
			return nil
		}
		there = append(there, string(f.GetName()))
	}
	return &rules.SourceError{
		What:   fmt.Sprintf("%s table %s has no column family %s", what, l.table, t.Family),
		Remedy: fmt.Sprintf("Name a family that it has: %s.", strings.Join(there, ", ")),
	}
}

// Close closes all connections and waits for the calls under way.
func (u *Users) Close() error { return u.logs.Close() }

// Lookup implements rules.Users, with one call per server and 128 rows. Row keys must not be
// empty.
func (u *Users) Lookup(ctx context.Context, ids []string) ([]rules.Attributes, error) {
	all := make([]rules.Attributes, len(ids))
	err := u.logs.call(fmt.Sprintf("look up %d users", len(ids)), func() error {
		columns := map[string][]string{u.family: u.columns}
		return u.logs.getRows(ctx, ids, columns, func(i int, answer proto.Message) { all[i] = u.user(ids[i], answer) })
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// user converts a row to a user's attributes.
func (u *Users) user(id string, answer proto.Message) rules.Attributes {
	cells := answer.(*pb.GetResponse).GetResult().GetCell()
	if len(cells) == 0 {
		return u.schema.Unknown(id)
	}
	attributes := u.schema.Attributes()
	values := make([]rules.Value, len(attributes))
	for _, cell := range cells {
		i, ok := u.index[string(cell.GetQualifier())]
		if !ok {
			continue
		}
		var err error
		if values[i], err = rules.ParseValue(attributes[i].Type, string(cell.GetValue())); err != nil {
			return u.schema.Unreadable(id, fmt.Errorf("%s, column %s:%s: %w", u.logs.where, u.family, u.columns[i], err))
		}
	}
	return u.schema.Known(id, values)
}
