package export

import (
	"bytes"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
)

// TestRedactedAttributes takes out what can be guessed of users.
func TestRedactedAttributes(t *testing.T) {
	r := &redaction{uid: "0123456789abcdef", secret: true}
	claim := &pb.Claim{User: "ann", Key: []byte("key"), Attributes: []byte("sixteen letters.")}
	if !r.commit(&pb.Commit{Ops: []*pb.Op{{Op: &pb.Op_Claim{Claim: claim}}}}) || string(claim.Attributes) != strings.Repeat("\x00", 16) || bytes.Contains(claim.Key, []byte("key")) {
		t.Errorf("%v", claim)
	}
	line := Claim{User: "ann", Key: "key", Attributes: "ab", Payloads: []map[string]string{{"code": "CANARY"}}}
	r.claim(&line)
	if line.Key != "" || line.Attributes != "" || line.Payloads != nil || *line.KeyDigest != draw.Label("0123456789abcdef", "ann", "key") {
		t.Errorf("%+v", line)
	}
}
