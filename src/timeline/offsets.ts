// Virtual and native offsets and epochs as different types, so that the compiler refuses to mix
// them. Pure. A virtual offset is what clients see; a native one is what the destination's broker
// says. Negative values are Kafka's sentinels (-1 unknown, -2 earliest ...) and are never shifted.

declare const virtualBrand: unique symbol;
declare const nativeBrand: unique symbol;

export type VirtualOffset = bigint & { readonly [virtualBrand]: true };
export type NativeOffset = bigint & { readonly [nativeBrand]: true };
export type VirtualEpoch = number & { readonly [virtualBrand]: true };
export type NativeEpoch = number & { readonly [nativeBrand]: true };

export const virtualOffset = (value: bigint): VirtualOffset => value as VirtualOffset;
export const nativeOffset = (value: bigint): NativeOffset => value as NativeOffset;
export const virtualEpoch = (value: number): VirtualEpoch => value as VirtualEpoch;
export const nativeEpoch = (value: number): NativeEpoch => value as NativeEpoch;
