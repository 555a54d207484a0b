package export

import (
	"errors"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
)

// ErrDrawRedacted reports that a draw cannot be exported in redacted form: its order follows from
// the keys. draw.Publish writes a list without keys that can be verified.
var ErrDrawRedacted = errors.New("the export of a draw cannot be redacted: 'salectl draw list' writes a public list without users and keys")

// redaction removes from an export what only the owner of the sale may have; nil removes nothing.
// It removes the keys of requests, since user and key give access to the result of a claim; what
// units are, if that is secret; and the digests of what rules knew of users, which can be guessed.
//
// A key is replaced by its digest, that of draw.Label, in lines and commits. So two requests
// remain distinct, and a reader who knows a key finds its claim.
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

// redactedLine replaces the key of a line by its digest, and removes its attributes.
func redactedLine(line *Claim, digest string) {
	line.Key, line.KeyBase64, line.Attributes, line.KeyDigest = "", nil, "", new(draw.Digest)
	copy(line.KeyDigest[:], digest)
}

// commit removes from a commit what is redacted. It reports true: each commit of a shard is redacted.
func (r *redaction) commit(c *pb.Commit) bool {
	for _, op := range c.GetOps() {
		if claim := op.GetClaim(); claim != nil {
			digest := draw.Label(r.uid, claim.GetUser(), string(claim.GetKey()))
			claim.Key = digest[:]
			clear(claim.GetAttributes())
		}
	}
	return true
}
