package ledger

import (
	"reflect"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

var opField = (*pb.Op)(nil).ProtoReflect().Descriptor().Oneofs().ByName("op")

// OpNames returns the kinds of ops in a commit by their names in ledger.proto, such as
// "claim" or "generation": each once, in the order of their first ops. A kind that
// this program does not know is "other".
func OpNames(c *pb.Commit) (names []string) {
	var last reflect.Type
	for i, op := range c.GetOps() {
		kind := reflect.TypeOf(op.GetOp())
		if i > 0 && kind == last { // a commit's thousands of claims are examined once
			continue
		}
		last = kind
		name := "other"
		if field := op.ProtoReflect().WhichOneof(opField); field != nil {
			name = string(field.Name())
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
