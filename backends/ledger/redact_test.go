package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/draw"
)

// TestExportRedacted shares an export without the keys of its requests. It is still audited,
// and has the same roots.
func TestExportRedacted(t *testing.T) {
	w := ledger.NewWorld(t)
	d, one, two := w.Draft(0), w.Buyer(0), w.Buyer(0)
	d.Claim(one, "CANARY-1", 2)
	d.Claim(two, "CANARY-\xff", 1)
	d.Claim(one, "CANARY-2", 1)
	w.Commit(0, d)
	w.End()
	var to bytes.Buffer
	if err := (export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Redacted: true}).Write(t.Context(), &to); err != nil {
		t.Fatal(err)
	}
	a, unproven, err := export.Audit(bytes.NewReader(to.Bytes()), nil)
	if err != nil || !a.OK || a.Sold != 4 || a.Users != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if !strings.Contains(strings.Join(unproven, "\n"), "their keys are redacted") {
		t.Errorf("it claims to prove all but %q", unproven)
	}
	lines := exportLines(to.Bytes())
	for _, line := range lines {
		var c export.Commit
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "CANARY") || bytes.Contains(c.Commit, []byte("CANARY")) {
			t.Errorf("a key is in %s", line)
		}
	}
	if want := `,"keyDigest":"` + draw.Label(ledger.TestUID, two, "CANARY-\xff").String() + `"`; !strings.Contains(lines[2], want) {
		t.Errorf("%s has no %s", lines[2], want)
	}
	if whole := exportLines(mustExport(t, w)); strings.Replace(lines[0], `,"redacted":true`, "", 1) != whole[0] {
		t.Errorf("the header is %s, that of the whole export %s", lines[0], whole[0])
	}
	for _, c := range []struct{ from, to, want string }{
		{`"units":[3]`, `"units":[4]`, `line 3: claim 0-2-1 has units [4], its commits have [3]`},
		{`,"redacted":true`, ``, `line 5: slot 0 of shard 0 is redacted: true; by the header: false`},
		{`"hash":"`, `"hash":"zz`, `line 5: it cannot be read: `},
		{lines[6], ``, `line 7: slot 3 of shard 0 follows slot 1 in line 6`},
		{`"keyDigest":"`, `"keyDigest":"0`, `line 2: it cannot be read: `},
	} {
		altered := strings.Replace(to.String(), c.from, c.to, 1)
		a := mustAuditExport(t, []byte(altered))
		if a.OK || !strings.Contains(strings.Join(a.Problems, "\n"), c.want) {
			t.Errorf("%s for %s: %q\nwant %s", c.to, c.from, a.Problems, c.want)
		}
	}
}

// TestDrawIsNotRedacted refuses what nobody could verify.
func TestDrawIsNotRedacted(t *testing.T) {
	w := ledger.NewDrawWorld(t, 10, nil, nil)
	err := export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Redacted: true}.Write(t.Context(), new(bytes.Buffer))
	if !errors.Is(err, export.ErrDrawRedacted) {
		t.Errorf("%v", err)
	}
}
