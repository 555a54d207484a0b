package apply

import (
	"errors"
	"fmt"
	"io"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/planner"
	"salectl/units"
)

// drawSecret generates the secret of a new draw and commits to it. The secret is in no plan:
// the readers of a saved plan could predict the order.
func drawSecret(planned *pb.Planned, rand io.Reader, key *units.Key) error {
	if planned == nil || planned.GetGeneration() != 1 || !planned.GetSettings().GetDraw() {
		return nil
	}
	if key == nil {
		return errors.New("the secret of the draw is to be encrypted: give the key")
	}
	secret := make([]byte, draw.SecretLen)
	if _, err := io.ReadFull(rand, secret); err != nil {
		return fmt.Errorf("drawing the secret of a draw: %w", err)
	}
	sealed, err := key.Seal(rand, drawContext(planned.GetUid()), secret)
	if err != nil {
		return err
	}
	terms, err := ledger.DrawTerms(planned)
	if err != nil {
		return err
	}
	end := terms.Commitment(planned.GetUid(), draw.Link(secret))
	planned.Draw = &pb.Draw{Commitment: end[:], Sealed: sealed, Key: key.ID()}
	return nil
}

// drawContext returns the context with which the secret of a run's draw is encrypted.
func drawContext(uid string) []byte { return []byte("draw " + uid) }

// openLink decrypts the secret of a draw and returns the link to be revealed.
func openLink(sale *ledger.Sale, key *units.Key) (link draw.Digest, err error) {
	d := sale.Draw()
	if key == nil || key.ID() != d.GetKey() {
		return link, &planner.Refusal{
			Reason: fmt.Sprintf("the secret of the draw is encrypted with the key whose id is %s, and the key given is another", d.GetKey()),
			Remedy: "Give the key that draw.keyEnv or draw.keyFile had at the first apply: without it the draw cannot be revealed.",
		}
	}
	secret, err := key.Open(drawContext(sale.UID()), d.GetSealed())
	if err != nil {
		return link, fmt.Errorf("the secret of the draw: %w", err)
	}
	link = draw.Link(secret)
	if sale.CommitsTo(link) != nil {
		return link, fmt.Errorf("%w: the secret of the draw is not the one that was committed to", ledger.ErrCorrupt)
	}
	return link, nil
}

// FitsDraw returns an error if a key does not decrypt the secret of a live, unrevealed draw.
func FitsDraw(sale *ledger.Sale, key *units.Key) error {
	if !sale.Live() || sale.Draw() == nil || sale.Drawn() != nil {
		return nil
	}
	_, err := openLink(sale, key)
	return err
}

// drawSeed generates the seed of the amounts of a new red packet. The seed is in no plan: the
// readers of a saved plan would know the amounts before the buyers.
func drawSeed(planned *pb.Planned, rand io.Reader) error {
	if planned == nil {
		return nil
	}
	sale, err := planner.Declared(planned)
	if err != nil || sale.RedPacket == nil || planned.GetGeneration() != 1 {
		return err
	}
	planned.Seed = make([]byte, 32)
	if _, err := io.ReadFull(rand, planned.Seed); err != nil {
		return fmt.Errorf("drawing the seed of red packets: %w", err)
	}
	return nil
}
