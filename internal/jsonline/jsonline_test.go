package jsonline_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/jsonline"
)

func TestRead(t *testing.T) {
	long := strings.Repeat("x", 40)
	in := bufio.NewReaderSize(strings.NewReader("one\n\n \t\r\n two \r\n"+long+"\nthree\n"+long+long+"\n"+strings.Repeat("y", 20)+"\nlast"), 16)
	var got []string
	for {
		line, err := jsonline.Read(in, 21)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line = []byte(err.Error())
		}
		got = append(got, string(line))
	}
	tooLong := jsonline.TooLong(21).Error()
	if want := []string{"one", "two", tooLong, "three", tooLong, strings.Repeat("y", 20), "last"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestDecode(t *testing.T) {
	type question struct {
		ID   json.RawMessage `json:"id"`
		Name string          `json:"name"`
	}
	for line, want := range map[string]string{
		`{"id":1,"name":"x"}`:         "",
		`{}`:                          "",
		`{"name":"x","name":"y"}`:     `unknown or repeated key "name"`,
		`{"Name":"x"}`:                `unknown or repeated key "Name"`,
		`{"other":"x"}`:               `unknown or repeated key "other"`,
		`{"name":1}`:                  `"name" can't be a number`,
		`["x"]`:                       `not a JSON object`,
		`x`:                           `not a JSON object`,
		`{"name":"x"`:                 `not JSON: the object doesn't end`,
		`{"name":"x"} {"name":"x"}`:   `more than one JSON object on the line`,
		`{"name":"x"} x`:              `more than one JSON object on the line`,
		`{"id":{"a":1,"a":2}}`:        "",
		`{"name":"\u0000\ud800","id"`: "not JSON: ",
	} {
		var q question
		err := jsonline.Decode([]byte(line), &q)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
