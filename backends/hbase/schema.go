package hbase

import (
	"fmt"
	"strings"

	"github.com/tsuna/gohbase/pb"
)

// forever is HBase's time to live for cells that never expire, in seconds.
const forever = "2147483647"

// regionCount is the number of regions of a new table: a few per server of a small cluster, and
// no burden on a single server.
const regionCount = 16

// splits returns the first keys of all regions but one. The names of shards begin with two hex
// digits that are evenly spread; the sales' own logs sort after them into the last region.
func splits() [][]byte {
	var keys [][]byte
	for i := 1; i < regionCount; i++ {
		keys = append(keys, fmt.Appendf(nil, "%02x", i*256/regionCount))
	}
	return keys
}

// tableName splits a table's name into HBase's two parts.
func tableName(table string) *pb.TableName {
	namespace, name, ok := strings.Cut(table, ":")
	if !ok {
		namespace, name = "default", table
	}
	return &pb.TableName{Namespace: []byte(namespace), Qualifier: []byte(name)}
}

// schema returns the schema of a new table.
func schema(table string) *pb.TableSchema {
	return &pb.TableSchema{
		TableName: tableName(table),
		ColumnFamilies: []*pb.ColumnFamilySchema{{
			Name: []byte(family),
			Attributes: attributes(
				"VERSIONS", "1", "MIN_VERSIONS", "0", "TTL", forever, "KEEP_DELETED_CELLS", "FALSE",
				"BLOOMFILTER", "ROW", "COMPRESSION", "NONE", "BLOCKCACHE", "true", "BLOCKSIZE", "65536",
			),
		}},
	}
}

func attributes(pairs ...string) []*pb.BytesBytesPair {
	var list []*pb.BytesBytesPair
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, &pb.BytesBytesPair{First: []byte(pairs[i]), Second: []byte(pairs[i+1])})
	}
	return list
}

// misfits returns what is wrong with a table, and the commands of the HBase shell that fix it.
// How the table is split affects only speed.
func misfits(table string, found *pb.TableSchema) (wrong, mend []string) {
	of := valuesOf(found.GetAttributes())
	if of["READONLY"] == "true" {
		wrong = append(wrong, "it is read-only")
		mend = append(mend, fmt.Sprintf("alter '%s', READONLY => 'false'", table))
	}
	if d := of["DURABILITY"]; d == "SKIP_WAL" || d == "ASYNC_WAL" {
		wrong = append(wrong, fmt.Sprintf("with DURABILITY %s it acknowledges writes that may be lost", d))
		mend = append(mend, fmt.Sprintf("alter '%s', DURABILITY => 'SYNC_WAL'", table))
	}
	for _, f := range found.GetColumnFamilies() {
		if string(f.GetName()) == family {
			w, m := familyMisfits(table, valuesOf(f.GetAttributes()))
			return append(wrong, w...), append(mend, m...)
		}
	}
	return append(wrong, "it has no family "+family),
		append(mend, fmt.Sprintf("alter '%s', {NAME => '%s', VERSIONS => 1}", table, family))
}

// familyMisfits checks the attributes of the family. A missing attribute has HBase's default,
// and each default is right.
func familyMisfits(table string, has map[string]string) (wrong, mend []string) {
	var changes []string
	for _, must := range []struct{ attribute, value, shell, why string }{
		{"VERSIONS", "1", "1", "it keeps old heads"},
		{"TTL", forever, "'FOREVER'", "slots expire after that many seconds"},
		{"MIN_VERSIONS", "0", "0", "it may keep what has expired"},
		{"KEEP_DELETED_CELLS", "FALSE", "'FALSE'", "it keeps what was deleted"},
	} {
		if value, ok := has[must.attribute]; ok && !strings.EqualFold(value, must.value) {
			wrong = append(wrong, fmt.Sprintf("its family %s has %s %s: %s", family, must.attribute, value, must.why))
			changes = append(changes, must.attribute+" => "+must.shell)
		}
	}
	if len(changes) > 0 {
		mend = append(mend, fmt.Sprintf("alter '%s', {NAME => '%s', %s}", table, family, strings.Join(changes, ", ")))
	}
	return wrong, mend
}

func valuesOf(pairs []*pb.BytesBytesPair) map[string]string {
	values := make(map[string]string, len(pairs))
	for _, p := range pairs {
		values[string(p.GetFirst())] = string(p.GetSecond())
	}
	return values
}
