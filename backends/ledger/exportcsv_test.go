package ledger_test

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
)

// TestExportCSV writes claims of users who would like a spreadsheet to work for them.
func TestExportCSV(t *testing.T) {
	w := ledger.NewWorld(t)
	d := w.Draft(0)
	for _, user := range []string{"user1", "=1+1", `a "b", c`, "'t", "＝1", "a=b"} {
		d.Claim(user, "key", 1)
	}
	w.Commit(0, d)
	var to bytes.Buffer
	if err := exportOf(w).WriteCSV(t.Context(), export.Filter{}, &to); err != nil {
		t.Fatal(err)
	}
	const want = "\ufeffclaim,sale,user,state,units,quantity,amount,currency,payment,at,held_until,settled_at,retired,who,why,refund_due,returned\r\n" +
		"'0-2-0,test,user1,sold,1,1,,,,1970-01-01T00:00:01.000007Z,,,,,,,\r\n" +
		"'0-2-1,test,'=1+1,sold,2,1,,,,1970-01-01T00:00:01.000007Z,,,,,,,\r\n" +
		"'0-2-2,test,\"a \"\"b\"\", c\",sold,3,1,,,,1970-01-01T00:00:01.000007Z,,,,,,,\r\n" +
		"'0-2-3,test,''t,sold,4,1,,,,1970-01-01T00:00:01.000007Z,,,,,,,\r\n" +
		"'0-2-4,test,'＝1,sold,5,1,,,,1970-01-01T00:00:01.000007Z,,,,,,,\r\n" +
		"'0-2-5,test,a=b,sold,6,1,,,,1970-01-01T00:00:01.000007Z,,,,,,,\r\n"
	if got := to.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestExportCSVAddsUp finds in the table of a red packet the amount that the header of its export has as
// granted, and of one user what a filter leaves.
func TestExportCSVAddsUp(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Taken(3)
	red, err := ledger.RedPacketOf(w.Sale)
	if err != nil {
		t.Fatal(err)
	}
	header, _, err := readExport(mustExport(t, w))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		filter export.Filter
		rows   int
	}{{export.Filter{}, 9}, {export.Filter{User: w.Shards[1].Claim(0).User}, 1}} {
		var to bytes.Buffer
		if err := exportOf(w).WriteCSV(t.Context(), c.filter, &to); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(to.String(), "\ufeff"))).ReadAll()
		if err != nil || len(rows) != c.rows+1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		sum := int64(0)
		for _, row := range rows[1:] {
			minor, ok := red.Parse(row[6])
			if sum += minor; !ok || row[7] != "CNY" {
				t.Errorf("a row %q", row)
			}
		}
		if granted := header.Packets.Granted; c.rows == 9 && red.Format(sum) != granted {
			t.Errorf("%s, the header has %s", red.Format(sum), granted)
		}
	}
}
