package export

import (
	"bytes"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
)

// TestRedactedAttributes takes out what can be guessed of users, and leaves what it is given.
func TestRedactedAttributes(t *testing.T) {
	r := &redaction{uid: "0123456789abcdef", secret: true}
	claim := &pb.Claim{User: "ann", Key: []byte("key"), Attributes: []byte("sixteen letters.")}
	entry, err := r.commit(&pb.Commit{Ops: []*pb.Op{{Op: &pb.Op_Claim{Claim: claim}}}})
	if err != nil || bytes.Contains(entry, claim.Attributes) || bytes.Contains(entry, []byte("key")) || string(claim.Key) != "key" || claim.Attributes[0] != 's' {
		t.Errorf("%q of %v, %v", entry, claim, err)
	}
	line := Claim{User: "ann", Key: "key", Attributes: "ab", Payloads: []map[string]string{{"code": "CANARY"}}}
	r.claim(&line)
	if line.Key != "" || line.Attributes != "" || line.Payloads != nil || *line.KeyDigest != draw.Label("0123456789abcdef", "ann", "key") {
		t.Errorf("%+v", line)
	}
}
