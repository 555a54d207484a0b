package ledger

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
)

// TestExportCSV writes claims of users who would like a spreadsheet to work for them.
func TestExportCSV(t *testing.T) {
	w := newWorld(t)
	d := w.draft(0)
	for _, user := range []string{"user1", "=1+1", `a "b", c`, "'t", "＝1", "a=b"} {
		d.Claim(user, "key", 1)
	}
	w.commit(0, d)
	var to bytes.Buffer
	if err := ExportCSV(t.Context(), w.logs, "test", testUID, w.shards, ClaimFilter{}, &to); err != nil {
		t.Fatal(err)
	}
	const want = "\ufeffclaim,sale,user,state,units,quantity,amount,currency,payment,at,held_until,settled_at,retired,who,why,refund_due\r\n" +
		"'0-2-0,test,user1,sold,1,1,,,,1970-01-01T00:00:01.000007Z,,,,,,\r\n" +
		"'0-2-1,test,'=1+1,sold,2,1,,,,1970-01-01T00:00:01.000007Z,,,,,,\r\n" +
		"'0-2-2,test,\"a \"\"b\"\", c\",sold,3,1,,,,1970-01-01T00:00:01.000007Z,,,,,,\r\n" +
		"'0-2-3,test,''t,sold,4,1,,,,1970-01-01T00:00:01.000007Z,,,,,,\r\n" +
		"'0-2-4,test,'＝1,sold,5,1,,,,1970-01-01T00:00:01.000007Z,,,,,,\r\n" +
		"'0-2-5,test,a=b,sold,6,1,,,,1970-01-01T00:00:01.000007Z,,,,,,\r\n"
	if got := to.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestExportCSVAddsUp finds in the table of a red packet what the header of its export says was
// granted, and of one user what a filter leaves.
func TestExportCSVAddsUp(t *testing.T) {
	w := packetsWorld(t, nil)
	w.taken(3)
	x, err := loadOfSale(t.Context(), w.logs, "test", testUID)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		filter ClaimFilter
		rows   int
	}{{ClaimFilter{}, 9}, {ClaimFilter{User: w.shards[1].Claim(0).User}, 1}} {
		var to bytes.Buffer
		if err := ExportCSV(t.Context(), w.logs, "test", testUID, w.shards, c.filter, &to); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(to.String(), "\ufeff"))).ReadAll()
		if err != nil || len(rows) != c.rows+1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		sum := int64(0)
		for _, row := range rows[1:] {
			minor, ok := x.packets.Parse(row[6])
			if sum += minor; !ok || row[7] != "CNY" {
				t.Errorf("a row %q", row)
			}
		}
		if granted := x.packets.header(w.shards).Granted; c.rows == 9 && x.packets.Format(sum) != granted {
			t.Errorf("%s, the header says %s", x.packets.Format(sum), granted)
		}
	}
}

// What a spreadsheet would change has an apostrophe in front, and what it shows as it is has none.
func TestSafe(t *testing.T) {
	for _, text := range []string{"0042", "1e5", "4-2-0", "1/2", "12:30", ".5", "1234567890123456", "MAR-1", "sept1", "Dec 24", "TRUE", "false", "1.10", "=1", "'x", " 1"} {
		if got := safe(text); got != "'"+text {
			t.Errorf("%q is written %q", text, got)
		}
	}
	for _, text := range []string{"", "0", "42", "123456789012345", "user1", "u-1", "mary", "may", "truest", "müller", "用户1"} {
		if got := safe(text); got != text {
			t.Errorf("%q is written %q", text, got)
		}
	}
}
