package units

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"salectl/spec"
)

// ErrKey says that bytes do not open: they were sealed under another key or for another
// context, or are damaged.
var ErrKey = errors.New("the units do not open under this key: it is another one than they were encrypted with, or they are damaged")

// MinSecret is the least number of bytes that a secret has, before base64.
const MinSecret = 32

// Key encrypts units. It is safe for concurrent use.
type Key struct {
	id     string
	digest []byte // the key of digests
	aead   cipher.AEAD
}

// What is derived from a secret, by HKDF-SHA256 without a salt. These texts never change:
// units that are sealed could not be opened any more.
const (
	infoSeal   = "salectl units v1"
	infoID     = "salectl units v1 id"
	infoDigest = "salectl units v1 digest"
)

// NewKey makes the key of a secret of MinSecret bytes or more.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the secret of a key has %d bytes, and needs %d", len(secret), MinSecret)
	}
	var derived [3][]byte
	for i, info := range []string{infoSeal, infoID, infoDigest} {
		var err error
		if derived[i], err = hkdf.Key(sha256.New, secret, nil, info, sha256.Size); err != nil {
			return nil, err
		}
	}
	block, err := aes.NewCipher(derived[0])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Key{id: hex.EncodeToString(derived[1][:8]), digest: derived[2], aead: aead}, nil
}

// ID is 16 hex digits that tell two keys apart, and nothing of the key.
func (k *Key) ID() string { return k.id }

// Seal encrypts with AES-256-GCM under a nonce of 12 bytes, which it reads from random and
// puts in front. The context is authenticated: bytes that were sealed for one context do
// not open for another. random must never return the same bytes twice.
func (k *Key) Seal(random io.Reader, context, plain []byte) ([]byte, error) {
	sealed := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(plain)+k.aead.Overhead())
	if _, err := io.ReadFull(random, sealed); err != nil {
		return nil, fmt.Errorf("units cannot be encrypted without randomness: %w", err)
	}
	return k.aead.Seal(sealed, sealed, plain, context), nil
}

// Open is Seal backwards. It returns ErrKey for what this key has not sealed for the
// context.
func (k *Key) Open(context, sealed []byte) ([]byte, error) {
	size := k.aead.NonceSize()
	if len(sealed) < size {
		return nil, ErrKey
	}
	plain, err := k.aead.Open(nil, sealed[:size], sealed[size:], context)
	if err != nil {
		return nil, ErrKey
	}
	return plain, nil
}

// maxKeyFile is more than a file with a key has.
const maxKeyFile = 64 << 10

const makeKey = "Make one with openssl rand -base64 32, and keep it: without it nobody can read the units any more."

// readKey reads the key from where it is declared.
func (s *Source) readKey(env func(string) (string, bool)) (*Key, error) {
	if name := s.units.KeyEnv; name != "" {
		text, set := env(name)
		what := fmt.Sprintf("the environment variable %s, which units.keyEnv names for their key,", name)
		if !set {
			return nil, &spec.Problem{File: s.sale, Message: what + " is not set", Remedy: "Set it to the key. " + makeKey}
		}
		return parseKey(s.sale, what, text)
	}
	path := s.units.KeyFile
	if path == "" {
		return nil, &spec.Problem{File: s.sale, Message: "the key of its units is in a file, and it is not known in which",
			Remedy: "Name the sale's file, which says it, with -f."}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadableKey(path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	switch {
	case err != nil:
		return nil, unreadableKey(path, err)
	case len(text) > maxKeyFile:
		return nil, &spec.Problem{File: path, Message: "the file is too large for a key", Remedy: "Name the file with the key. " + makeKey}
	}
	return parseKey(path, "the file", string(text))
}

func unreadableKey(path string, err error) error {
	p := spec.Unreadable(path, err)
	p.Message = "the key of the units: " + p.Message
	return p
}

// parseKey reads a key in base64, padded or not. What is wrong with it is said of what, and
// never shows it.
func parseKey(file, what, text string) (*Key, error) {
	encoded := strings.TrimSpace(text)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		secret, err = base64.RawStdEncoding.DecodeString(encoded)
	}
	message := ""
	switch {
	case encoded == "":
		message = what + " is empty"
	case err != nil:
		message = what + " has no base64"
	case len(secret) < MinSecret:
		message = fmt.Sprintf("%s has a key of %d bytes, and %d are the least", what, len(secret), MinSecret)
	default:
		return NewKey(secret)
	}
	return nil, &spec.Problem{File: file, Message: message, Remedy: makeKey}
}
