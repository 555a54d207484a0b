package export

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
)

// ErrDrawRedacted says that the export of a draw is not redacted: its order follows from the
// keys, and draw.Publish writes a list without them that can be verified.
var ErrDrawRedacted = errors.New("a draw is not exported without its keys: 'salectl draw publish' writes its list without users and keys, for everybody to verify")

// redaction takes out of an export what only its owner may have, for somebody who is to look
// at the rest; nil takes nothing out. Gone are the keys of requests, since whoever has user and
// key hears what became of the claim; what units are, if it is secret; and the digests of what
// rules knew of users, which can be guessed.
//
// A key is replaced by its digest in lines and commits, so that two requests are two still, and
// whoever knows a key finds its claim. It is that of draw.Label.
type redaction struct {
	uid    string
	secret bool // what units are is secret
}

func (r *redaction) claim(line *Claim) {
	if r == nil {
		return
	}
	key := line.Key
	if line.KeyBase64 != nil {
		key = string(line.KeyBase64)
	}
	digest := draw.Label(r.uid, line.User, key)
	redactedLine(line, string(digest[:]))
	if r.secret {
		line.Payloads = nil
	}
}

// redactedLine replaces the key of a line by its digest.
func redactedLine(line *Claim, digest string) {
	line.Key, line.KeyBase64, line.Attributes, line.KeyDigest = "", nil, "", new(draw.Digest)
	copy(line.KeyDigest[:], digest)
}

// commit returns a commit without what is redacted. What it is given stays as it is.
func (r *redaction) commit(c *pb.Commit) ([]byte, error) {
	c = proto.CloneOf(c)
	for _, op := range c.GetOps() {
		if claim := op.GetClaim(); claim != nil {
			digest := draw.Label(r.uid, claim.GetUser(), string(claim.GetKey()))
			claim.Key = digest[:]
			clear(claim.GetAttributes())
		}
	}
	entry, err := proto.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("redacting a commit: %w", err)
	}
	return entry, nil
}
