package hbase

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"salectl/rules"
)

// UsersOptions names a table of users and describes its columns.
type UsersOptions struct {
	Options // the table; its row keys are the ids of users
	Family  string
	// Columns has the column of each attribute whose column's name differs from the
	// attribute's.
	Columns map[string]string
	Schema  *rules.Schema
}

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

// OpenUsers returns a handle on the users of a table. Like Open, it connects to nothing. Close
// releases its connections.
func OpenUsers(o UsersOptions) (*Users, error) {
	if o.Family == "" || o.Schema == nil || len(o.Schema.Attributes()) == 0 {
		return nil, errors.New("users in HBase need a family and at least one attribute")
	}
	u := &Users{schema: o.Schema, family: o.Family, index: map[string]int{}}
	for i, a := range o.Schema.Attributes() {
		column := a.Name
		if named := o.Columns[a.Name]; named != "" {
			column = named
		}
		if j, ok := u.index[column]; ok {
			return nil, fmt.Errorf("the attributes %s and %s have the same column %s:%s", o.Schema.Attributes()[j].Name, a.Name, o.Family, column)
		}
		u.index[column] = i
		u.columns = append(u.columns, column)
	}
	logs, err := Open(o.Options)
	u.logs = logs
	return u, err
}

// CheckRows queries the master whether the table and the family for rows of users exist; if
// not, the error is a *rules.SourceError. The table's other settings are left to its owner.
// what is the purpose of the table, for errors: users, history.
func CheckRows(ctx context.Context, what string, o Options, family string) error {
	l, err := Open(o)
	if err != nil {
		return err
	}
	defer l.Close()
	found := new(pb.GetTableDescriptorsResponse)
	err = l.askMaster(ctx, "GetTableDescriptors", &pb.GetTableDescriptorsRequest{TableNames: []*pb.TableName{tableName(l.table)}}, found)
	switch {
	case err != nil:
		return l.failed("check the table", err)
	case len(found.GetTableSchema()) == 0:
		return &rules.SourceError{
			What:   fmt.Sprintf("%s table %s does not exist (ZooKeeper %s)", what, l.table, strings.Join(o.Zookeeper, ",")),
			Remedy: fmt.Sprintf("Create it in the HBase shell: create '%s', '%s'. Or name the table that is there.", l.table, family),
		}
	}
	var there []string
	for _, f := range found.GetTableSchema()[0].GetColumnFamilies() {
		if string(f.GetName()) == family {
			return nil
		}
		there = append(there, string(f.GetName()))
	}
	return &rules.SourceError{
		What:   fmt.Sprintf("%s table %s has no column family %s", what, l.table, family),
		Remedy: fmt.Sprintf("Name a family that it has: %s.", strings.Join(there, ", ")),
	}
}

// Close closes all connections and waits for the calls under way.
func (u *Users) Close() error { return u.logs.Close() }

// Lookup implements rules.Users, with one call per server and 128 rows. Row keys must not be
// empty.
func (u *Users) Lookup(ctx context.Context, ids []string) ([]rules.Attributes, error) {
	if err := u.logs.begin(); err != nil {
		return nil, err
	}
	defer u.logs.busy.Done()
	all := make([]rules.Attributes, len(ids))
	columns := map[string][]string{u.family: u.columns}
	err := u.logs.getRows(ctx, ids, columns, func(i int, answer proto.Message) { all[i] = u.user(ids[i], answer) })
	if err != nil {
		return nil, u.logs.failed(fmt.Sprintf("look up %d users", len(ids)), err)
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
	user, err := u.schema.New(id, values)
	if err != nil {
		return u.schema.Unreadable(id, err)
	}
	return user
}
