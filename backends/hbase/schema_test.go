package hbase

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"salectl/spec"

	"github.com/tsuna/gohbase/pb"
)

func TestMisfits(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*pb.TableSchema)
		wrong  string // one of what is wrong has this
		mend   string
	}{
		"as we make it":   {func(*pb.TableSchema) {}, "", ""},
		"HBase's default": {func(s *pb.TableSchema) { s.ColumnFamilies[0].Attributes = nil }, "", ""},
		"versions":        {set("VERSIONS", "3"), "VERSIONS 3", "alter 'ns:sales', {NAME => 's', VERSIONS => 1}"},
		"a time to live":  {set("TTL", "86400"), "TTL 86400", "alter 'ns:sales', {NAME => 's', TTL => 'FOREVER'}"},
		"minimum":         {set("MIN_VERSIONS", "1"), "MIN_VERSIONS 1", "{NAME => 's', MIN_VERSIONS => 0}"},
		"kept deletes":    {set("KEEP_DELETED_CELLS", "TTL"), "KEEP_DELETED_CELLS TTL", "KEEP_DELETED_CELLS => 'FALSE'"},
		"case":            {set("KEEP_DELETED_CELLS", "false"), "", ""},
		"no family": {func(s *pb.TableSchema) { s.ColumnFamilies[0].Name = []byte("t") },
			"no family s", "alter 'ns:sales', {NAME => 's', VERSIONS => 1}"},
		"no family at all": {func(s *pb.TableSchema) { s.ColumnFamilies = nil }, "no family s", "alter"},
		"another family beside": {func(s *pb.TableSchema) {
			other := &pb.ColumnFamilySchema{Name: []byte("a"), Attributes: attributes("VERSIONS", "9")}
			s.ColumnFamilies = append([]*pb.ColumnFamilySchema{other}, s.ColumnFamilies...)
		}, "", ""},
		"read-only":      {func(s *pb.TableSchema) { s.Attributes = attributes("READONLY", "true") }, "read-only", "READONLY => 'false'"},
		"not synced":     {func(s *pb.TableSchema) { s.Attributes = attributes("DURABILITY", "ASYNC_WAL") }, "ASYNC_WAL", "DURABILITY => 'SYNC_WAL'"},
		"synced to disk": {func(s *pb.TableSchema) { s.Attributes = attributes("DURABILITY", "FSYNC_WAL") }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := schema("ns:sales")
			test.change(s)
			wrong, mend := misfits("ns:sales", s)
			if test.wrong == "" {
				if len(wrong)+len(mend) > 0 {
					t.Errorf("%q, to be mended by %q, want nothing", wrong, mend)
				}
				return
			}
			if len(wrong) != 1 || !strings.Contains(wrong[0], test.wrong) || len(mend) != 1 || !strings.Contains(mend[0], test.mend) {
				t.Errorf("%q, to be mended by %q, want one with %q, %q", wrong, mend, test.wrong, test.mend)
			}
		})
	}
}

func set(attribute, value string) func(*pb.TableSchema) {
	return func(s *pb.TableSchema) {
		for _, a := range s.ColumnFamilies[0].Attributes {
			if string(a.First) == attribute {
				a.Second = []byte(value)
			}
		}
	}
}

func TestMisfitsTogether(t *testing.T) {
	s := schema("sales")
	set("VERSIONS", "3")(s)
	set("TTL", "60")(s)
	wrong, mend := misfits("sales", s)
	if len(wrong) != 2 || !slices.Equal(mend, []string{"alter 'sales', {NAME => 's', VERSIONS => 1, TTL => 'FOREVER'}"}) {
		t.Errorf("%q, to be mended by %q", wrong, mend)
	}
}

func TestTableNames(t *testing.T) {
	for table, want := range map[string][2]string{"sales": {"default", "sales"}, "shop:sales": {"shop", "sales"}} {
		n := tableName(table)
		if string(n.Namespace) != want[0] || string(n.Qualifier) != want[1] {
			t.Errorf("%s is %s in %s", table, n.Qualifier, n.Namespace)
		}
	}
}

// The shards of a sale spread evenly over the regions.
func TestSplitsSpread(t *testing.T) {
	keys := splits()
	if len(keys) != regionCount-1 || !slices.IsSortedFunc(keys, bytes.Compare) {
		t.Fatalf("the splits are %q", keys)
	}
	for _, shards := range []int{16, 64, 1024} {
		count := make([]int, regionCount)
		for shard := range shards {
			row := []byte(spec.ShardLog("uid", shard, shards))
			i, _ := slices.BinarySearchFunc(keys, row, bytes.Compare)
			count[i]++
		}
		if slices.Min(count) != shards/regionCount || slices.Max(count) != shards/regionCount {
			t.Errorf("%d shards lie in the regions as %d", shards, count)
		}
	}
}
