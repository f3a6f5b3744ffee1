//! Traffic generators that report what they could not send.
