package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
)

// TestExportRedacted shares an export without the keys of its requests. It is still audited,
// and has the same roots.
func TestExportRedacted(t *testing.T) {
	w := newWorld(t)
	d, one, two := w.draft(0), w.buyer(0), w.buyer(0)
	d.Claim(one, "CANARY-1", 2)
	d.Claim(two, "CANARY-\xff", 1)
	d.Claim(one, "CANARY-2", 1)
	w.commit(0, d)
	w.end()
	var to bytes.Buffer
	if err := ExportRedacted(t.Context(), w.logs, "test", w.sale, w.shards, nil, &to); err != nil {
		t.Fatal(err)
	}
	a, unproven, err := AuditExport(bytes.NewReader(to.Bytes()), nil)
	if err != nil || !a.OK || a.Sold != 4 || a.Users != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if !strings.Contains(strings.Join(unproven, "\n"), "the keys in them are redacted") {
		t.Errorf("it says that it proves all but %q", unproven)
	}
	lines := exportLines(to.Bytes())
	for _, line := range lines {
		var c ExportCommit
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "CANARY") || bytes.Contains(c.Commit, []byte("CANARY")) {
			t.Errorf("a key is in %s", line)
		}
	}
	if want := `,"keyDigest":"` + draw.Label(testUID, two, "CANARY-\xff").String() + `"`; !strings.Contains(lines[2], want) {
		t.Errorf("%s has no %s", lines[2], want)
	}
	if whole := exportLines(mustExport(t, w)); strings.Replace(lines[0], `,"redacted":true`, "", 1) != whole[0] {
		t.Errorf("the header is %s, that of the whole export %s", lines[0], whole[0])
	}
	for _, c := range []struct{ from, to, want string }{
		{`"units":[3]`, `"units":[4]`, `line 3: claim 0-2-1 has units [4], its commits say [3]`},
		{`,"redacted":true`, ``, `line 5: slot 0 of shard 0 is redacted: true; the header says: false`},
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
	w := newDrawWorld(t, 10, nil, nil)
	err := ExportRedacted(t.Context(), w.logs, "test", w.sale, w.shards, nil, new(bytes.Buffer))
	if !errors.Is(err, ErrDrawRedacted) {
		t.Errorf("%v", err)
	}
}

// TestRedactedAttributes takes out what can be guessed of users, and leaves what it is given.
func TestRedactedAttributes(t *testing.T) {
	r := &redaction{uid: testUID, secret: true}
	claim := &pb.Claim{User: "ann", Key: []byte("key"), Attributes: []byte("sixteen letters.")}
	entry, err := r.commit(&pb.Commit{Ops: []*pb.Op{{Op: &pb.Op_Claim{Claim: claim}}}})
	if err != nil || bytes.Contains(entry, claim.Attributes) || bytes.Contains(entry, []byte("key")) || string(claim.Key) != "key" || claim.Attributes[0] != 's' {
		t.Errorf("%q of %v, %v", entry, claim, err)
	}
	line := ExportClaim{User: "ann", Key: "key", Attributes: "ab", Payloads: []map[string]string{{"code": "CANARY"}}}
	r.claim(&line)
	if line.Key != "" || line.Attributes != "" || line.Payloads != nil || *line.KeyDigest != draw.Label(testUID, "ann", "key") {
		t.Errorf("%+v", line)
	}
}
