declare const WaveSurfer: { create(options: Record<string, any>): any };
export default WaveSurfer;
