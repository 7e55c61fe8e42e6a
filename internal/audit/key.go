package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

const keyName = "key"

// key signs checkpoints and heads. Its successors can be derived from it, its predecessors can't.
type key struct{ private ed25519.PrivateKey }

func newKey(seed []byte) key { return key{ed25519.NewKeyFromSeed(seed)} }

// loadKey reads a folder's key, or creates one.
func loadKey(folder string) (k key, err error) {
	name := filepath.Join(folder, keyName)
	text, err := readSmall(name, 1024)
	if isNotExist(err) {
		var seed [ed25519.SeedSize]byte
		rand.Read(seed[:])
		k = newKey(seed[:])
		return k, k.save(folder)
	}
	if err != nil && !errors.Is(err, errSize) {
		return k, err
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return k, fmt.Errorf("%s isn't a key: restore it from a copy, or remove it to start with a new key, which the audit reports", name)
	}
	return newKey(seed), nil
}

func (k key) save(folder string) error {
	if err := Replace(filepath.Join(folder, keyName), []byte(hex.EncodeToString(k.private.Seed())+"\n")); err != nil {
		return fmt.Errorf("store the audit's key: %w", err)
	}
	return nil
}

// next returns the key after k.
func (k key) next() key {
	seed := sha256.Sum256(append([]byte("toolguard audit key\n"), k.private.Seed()...))
	return newKey(seed[:])
}

// public returns the public key in hexadecimal.
func (k key) public() string {
	return hex.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

// verify reports whether a public key's owner has signed a text.
func verify(public, text, signature string) bool {
	p, perr := hex.DecodeString(public)
	s, serr := hex.DecodeString(signature)
	return perr == nil && serr == nil && len(p) == ed25519.PublicKeySize && ed25519.Verify(p, []byte(text), s)
}

// checkpointText returns the text that a checkpoint signs.
func checkpointText(l link, nextKey string) string {
	return fmt.Sprintf("toolguard audit checkpoint\n%s\n%d\n%s\n%s\n", l.chain, l.sequence, l.previous, nextKey)
}

func (k key) sign(text string) string {
	return hex.EncodeToString(ed25519.Sign(k.private, []byte(text)))
}
